/* SPDX-License-Identifier: BSD-2-Clause */
/* Automatic path migration: IBV_QP_ALT_PATH and IBV_QP_PATH_MIG_STATE of ibv_modify_qp(3). */
#include "loop.h"

static struct ibv_context *ctx;

/* The path between the addresses of a GID index, as the alternate one. */
static struct ibv_qp_attr alternate(int index)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM, .alt_port_num = PORT, .alt_timeout = 15};

	attr.alt_ah_attr = address(ctx);
	attr.alt_ah_attr.grh.sgid_index = (uint8_t)index;
	MUST(!ibv_query_gid(ctx, PORT, index, &attr.alt_ah_attr.grh.dgid));
	return attr;
}

static int state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	MUST(!ibv_query_qp(qp, &attr, IBV_QP_PATH_MIG_STATE, &init));
	return attr.path_mig_state;
}

static void message(struct end *from, struct end *to)
{
	EQUAL(post_recv(to, 1, 0, 100), 0);
	EQUAL(post_send(from, 2, 0, 10), 0);
	WANT_WC(from->cq, 2, IBV_WC_SUCCESS);
	WANT_WC(to->cq, 1, IBV_WC_SUCCESS);
}

static void migrates(int index)
{
	const int both = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
	struct ibv_qp_attr attr = alternate(index), got;
	struct ibv_device_attr device;
	struct ibv_qp_init_attr init;
	struct ibv_async_event event;
	struct end a, b;
	int migrated = 0;

	MUST(!ibv_query_device(ctx, &device));
	CHECK(device.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG);
	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(ibv_modify_qp(a.qp, &attr, IBV_QP_PATH_MIG_STATE), EINVAL); /* no path is loaded */
	attr.alt_port_num = 2;
	EQUAL(ibv_modify_qp(a.qp, &attr, both), EINVAL);
	attr = alternate(index);
	attr.path_mig_state = IBV_MIG_ARMED;
	EQUAL(ibv_modify_qp(a.qp, &attr, both), EINVAL);
	attr = alternate(index);
	EQUAL(ibv_modify_qp(a.qp, &attr, both), 0);
	EQUAL(ibv_modify_qp(b.qp, &attr, both), 0);
	EQUAL(state(a.qp), IBV_MIG_REARM);
	message(&a, &b);
	message(&b, &a);
	message(&a, &b);
	EQUAL(state(a.qp), IBV_MIG_ARMED);
	EQUAL(state(b.qp), IBV_MIG_ARMED);

	attr = (struct ibv_qp_attr){.path_mig_state = IBV_MIG_MIGRATED};
	EQUAL(ibv_modify_qp(a.qp, &attr, IBV_QP_PATH_MIG_STATE), 0);
	message(&a, &b);
	message(&b, &a);
	EQUAL(state(b.qp), IBV_MIG_MIGRATED);
	MUST(!ibv_query_qp(b.qp, &got, IBV_QP_AV, &init));
	EQUAL(got.ah_attr.grh.sgid_index, index);
	EQUAL(got.timeout, 15);
	while (migrated != 3) {
		MUST(!ibv_get_async_event(ctx, &event));
		if (event.event_type == IBV_EVENT_PATH_MIG)
			migrated |= event.element.qp == a.qp ? 1 : event.element.qp == b.qp ? 2 : 4;
		else
			EQUAL(event.event_type, IBV_EVENT_COMM_EST);
		ibv_ack_async_event(&event);
	}
	unpair(&a, &b);
}

int main(void)
{
	union ibv_gid first, gid, none = {.raw = {0}};
	int index = 0;

	ctx = open_loopback();
	first = address(ctx).grh.dgid;
	while (index < 16 && (ibv_query_gid(ctx, PORT, index, &gid) || !memcmp(&gid, &none, sizeof(gid)) || !memcmp(&gid, &first, sizeof(gid))))
		index++;
	if (index < 16)
		migrates(index);
	else
		printf("the interface has one address: nothing is migrated\n");
	return finish(ctx);
}
