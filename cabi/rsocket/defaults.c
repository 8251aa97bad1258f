/* SPDX-License-Identifier: BSD-2-Clause */
#include "defaults.h"

#include "wire.h"

#include <pthread.h>
#include <stdio.h>

static struct rs_default_values values = {
	.receive_buffer = 1 << 17,
	.send_buffer = 1 << 17,
	.send_queue = 384,
	.receive_queue = 384,
	.inline_data = 64,
	.iomap_size = 0,
	.polling_time_us = 10,
	.wake_up_interval_ms = 500,
};

/* A file that is missing or has no number in range changes nothing. */
static void read_file(const char *path, uint32_t *value, uint32_t least, uint32_t most)
{
	FILE *f = fopen(path, "re");
	unsigned long long n;

	if (!f)
		return;
	if (fscanf(f, "%llu", &n) == 1)
		*value = n < least ? least : n > most ? most : (uint32_t)n;
	fclose(f);
}

static void read_files(void)
{
	/* Half a buffer's length must fit into the value of a message. */
	const uint32_t most = 1u << RS_MSG_VALUE_BITS;

	read_file(RS_CONF_DIR "/mem_default", &values.receive_buffer, 2, most);
	read_file(RS_CONF_DIR "/wmem_default", &values.send_buffer, 2 * RS_SEND_LOW_WATER, most);
	read_file(RS_CONF_DIR "/sqsize_default", &values.send_queue, RS_QUEUE_MIN, RS_QUEUE_MAX);
	read_file(RS_CONF_DIR "/rqsize_default", &values.receive_queue, RS_QUEUE_MIN, RS_QUEUE_MAX);
	read_file(RS_CONF_DIR "/inline_default", &values.inline_data, 0, UINT16_MAX);
	read_file(RS_CONF_DIR "/iomap_size", &values.iomap_size, 0, UINT16_MAX);
	read_file(RS_CONF_DIR "/polling_time", &values.polling_time_us, 0, UINT32_MAX);
	read_file(RS_CONF_DIR "/wake_up_interval", &values.wake_up_interval_ms, 1, INT32_MAX);
	values.iomap_size = rs_unscale(rs_scale(values.iomap_size));
}

const struct rs_default_values *rs_defaults(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_files);
	return &values;
}
