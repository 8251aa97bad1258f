/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints what rdma_event_str(3) says, to be compared with another library.
 */
#include <rdma/rdma_cma.h>
#include <stdio.h>

int main(void)
{
	for (int i = -1; i < 24; i++)
		printf("%d %s\n", i, rdma_event_str(i));
	return 0;
}
