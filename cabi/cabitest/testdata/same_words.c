/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints every word and every rate, for a comparison with rdma-core's. */
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
	for (int i = -3; i < 64; i++) {
		printf("node %d %s\n", i, ibv_node_type_str(i));
		printf("port %d %s\n", i, ibv_port_state_str(i));
		printf("event %d %s\n", i, ibv_event_type_str(i));
		printf("wc %d %s\n", i, ibv_wc_status_str(i));
		printf("rate %d %d %d\n", i, ibv_rate_to_mult(i), ibv_rate_to_mbps(i));
	}
	for (int i = -3; i < 1000; i++)
		printf("mult %d %d\n", i, mult_to_ibv_rate(i));
	for (int i = 0; i < 1500000; i++)
		if (mbps_to_ibv_rate(i) != IBV_RATE_MAX)
			printf("mbps %d %d\n", i, mbps_to_ibv_rate(i));
	return 0;
}
