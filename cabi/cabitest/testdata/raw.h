/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet queue pairs on loopback, whose frames the kernel has no use for. */
#ifndef RAW_H
#define RAW_H

#include "loop.h"

#include <sys/socket.h>
#include <unistd.h>

/* A local experimental EtherType. */
#define FRAME_TYPE 0x88b5

/* Ends the program without the capability that packet sockets need. */
__attribute__((unused)) static void need_cap_net_raw(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0) {
		printf("not run: packet sockets need CAP_NET_RAW: %s\n", strerror(errno));
		exit(0);
	}
	close(fd);
}

__attribute__((unused)) static void raw_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = PORT};

	EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0)), 0);
}

/* An end with a raw packet queue pair in RTS. */
__attribute__((unused)) static void raw_open(struct end *e, struct ibv_context *ctx)
{
	end_open(e, ctx, NULL);
	end_qp(e, IBV_QPT_RAW_PACKET);
	raw_to(e->qp, IBV_QPS_INIT);
	raw_to(e->qp, IBV_QPS_RTR);
	raw_to(e->qp, IBV_QPS_RTS);
}

/* Writes an Ethernet header to the end's buffer, with the last byte of the destination. */
__attribute__((unused)) static void frame_header(struct end *e, size_t offset, uint8_t to)
{
	const uint8_t header[14] = {2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 99, FRAME_TYPE >> 8, FRAME_TYPE & 0xff};

	memcpy(e->buf + offset, header, sizeof(header));
}

#endif
