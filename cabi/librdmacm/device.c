/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices: rdma_get_devices(3), and the contexts that all identifiers share.
 */
#include "cm.h"

#include "forklock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cm_device *devices; /* guarded by lock; entries stay */

/* Returns a number of READs and atomics as rdma_conn_param can hold it. */
static uint8_t depth(int n)
{
	return n < 0 ? 0 : n > RDMA_MAX_RESP_RES ? RDMA_MAX_RESP_RES : n;
}

/* The entry of a device, NULL if there is none yet. lock is held. */
static struct cm_device *entry_of(const char *name)
{
	struct cm_device *device = devices;

	while (device && strcmp(ibv_get_device_name(device->verbs->device), name) != 0)
		device = device->next;
	return device;
}

/* The rate of a device's port as path records have it. */
static uint8_t port_rate(struct ibv_context *verbs)
{
	/* by the bit of active_speed */
	static const int lane_mbps[] = { 2500, 5000, 10000, 10000, 14000, 25000, 50000 };
	static const int lanes[] = { 1, 4, 8, 12 };					  /* of active_width */
	struct ibv_port_attr attr;
	unsigned speed, width;

	if (ibv_query_port(verbs, 1, &attr) || !attr.active_speed || !attr.active_width)
		return IBV_RATE_MAX;
	speed = __builtin_ctz(attr.active_speed);
	width = __builtin_ctz(attr.active_width);
	if (speed >= sizeof(lane_mbps) / sizeof(lane_mbps[0]) ||
	    width >= sizeof(lanes) / sizeof(lanes[0]))
		return IBV_RATE_MAX;
	return mbps_to_ibv_rate(lane_mbps[speed] * lanes[width]);
}

/*
 * Returns the entry of a device, which the first call makes: 0 or an errno. The caller holds lock.
 */
static int open_device(struct ibv_device *ibv, struct cm_device **out)
{
	struct cm_device *device = entry_of(ibv_get_device_name(ibv));
	struct ibv_device_attr attr;
	int err;

	if (device) {
		*out = device;
		return 0;
	}
	device = calloc(1, sizeof(*device));
	if (!device)
		return ENOMEM;
	errno = 0;
	device->verbs = ibv_open_device(ibv);
	if (!device->verbs) {
		err = errno ? errno : ENODEV;
		free(device);
		return err;
	}
	err = ibv_query_device(device->verbs, &attr);
	if (err) {
		ibv_close_device(device->verbs);
		free(device);
		return err;
	}
	device->max_responder_resources = depth(attr.max_qp_rd_atom);
	device->max_initiator_depth = depth(attr.max_qp_init_rd_atom);
	device->rate = port_rate(device->verbs);
	device->next = devices;
	devices = device;
	*out = device;
	return 0;
}

int cm_device_open(const char *name, struct cm_device **device)
{
	struct ibv_device **list;
	int err = ENODEV;

	pthread_mutex_lock(&lock);
	*device = entry_of(name);
	pthread_mutex_unlock(&lock);
	if (*device)
		return 0; /* each identifier asks; to list the devices takes hundreds of microseconds */
	list = ibv_get_device_list(NULL);
	if (!list)
		return errno;
	pthread_mutex_lock(&lock);
	for (int i = 0; list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
			err = open_device(list[i], device);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	ibv_free_device_list(list);
	return err;
}

/*
 * Forgets the domains of an engine that a fork ended. They stay in memory: objects of the
 * application may point at them.
 */
static int forget_dead(struct cm_device *device)
{
	const struct vb_engine *engine = vb_engine_get();

	if (!engine)
		return errno;
	if (device->engine != engine) {
		device->engine = engine;
		device->pd = NULL;
		device->xrcd = NULL;
	}
	return 0;
}

int cm_device_pd(struct cm_device *device, struct ibv_pd **pd)
{
	int err;

	pthread_mutex_lock(&lock);
	err = forget_dead(device);
	if (!err && !device->pd) {
		device->pd = ibv_alloc_pd(device->verbs);
		if (!device->pd)
			err = errno;
	}
	*pd = device->pd;
	pthread_mutex_unlock(&lock);
	return err;
}

int cm_device_xrcd(struct cm_device *device, struct ibv_xrcd **xrcd)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	int err;

	pthread_mutex_lock(&lock);
	err = forget_dead(device);
	if (!err && !device->xrcd) {
		device->xrcd = ibv_open_xrcd(device->verbs, &attr);
		if (!device->xrcd)
			err = errno;
	}
	*xrcd = device->xrcd;
	pthread_mutex_unlock(&lock);
	return err;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_context **, rdma_get_devices, (int *num_devices),
			     (num_devices))
{
	struct ibv_device **list;
	struct ibv_context **contexts;
	struct cm_device *device;
	int n = 0, found, err = ENODEV;

	if (num_devices)
		*num_devices = 0;
	list = ibv_get_device_list(&found);
	if (!list)
		return NULL;
	contexts = calloc(found + 1, sizeof(*contexts));
	if (!contexts) {
		ibv_free_device_list(list);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	for (int i = 0; i < found; i++) {
		int e = open_device(list[i], &device);

		if (e)
			err = e; /* the device is gone: go on */
		else
			contexts[n++] = device->verbs;
	}
	pthread_mutex_unlock(&lock);
	ibv_free_device_list(list);
	if (!n) {
		free(contexts);
		errno = err;
		return NULL;
	}
	if (num_devices)
		*num_devices = n;
	return contexts;
}

VB_EXPORT VB_RETURNS_NOTHING(rdma_free_devices, (struct ibv_context **list), (list))
{
	free(list);
}

VB_HELD_OVER_FORK(&lock);
