/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints the results of rdma_event_str(3), to be compared with another library's.
 */
#include <rdma/rdma_cma.h>
#include <stdio.h>

int main(void)
{
	/* rdma-core 65 has more from 16 to 19, which earlier ones do not know. */
	for (int i = -1; i < 24; i == 15 ? i = 20 : i++)
		printf("%d %s\n", i, rdma_event_str(i));
	return 0;
}
