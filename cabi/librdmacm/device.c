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

/* A number of READs and atomics as rdma_conn_param holds it. */
static uint8_t depth(int n)
{
	return n < 0 ? 0 : n > RDMA_MAX_RESP_RES ? RDMA_MAX_RESP_RES : n;
}

/* Returns a device's entry, which the first call makes: 0 or an errno. lock is held. */
static int open_device(struct ibv_device *ibv, struct cm_device **out)
{
	struct ibv_device_attr attr;
	struct cm_device *device;
	int err;

	for (device = devices; device; device = device->next) {
		if (strcmp(ibv_get_device_name(device->verbs->device), ibv_get_device_name(ibv)) == 0) {
			*out = device;
			return 0;
		}
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
	device->next = devices;
	devices = device;
	*out = device;
	return 0;
}

int cm_device_open(const char *name, struct cm_device **device)
{
	struct ibv_device **list;
	int err = ENODEV;

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
 * Forgets the domains of an engine that a fork ended. They are not freed:
 * objects of the application may point at them.
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

VB_EXPORT VB_RETURNS_POINTER(struct ibv_context **, rdma_get_devices, (int *num_devices), (num_devices))
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
			err = e; /* it went away: the others count */
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
