/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings in the administrator's files below /etc/rdma/rsocket: rsocket(7). */
#ifndef VERBENA_RSOCKET_DEFAULTS_H
#define VERBENA_RSOCKET_DEFAULTS_H

#include <stdint.h>

#ifndef RS_CONF_DIR
#define RS_CONF_DIR "/etc/rdma/rsocket"
#endif

struct rs_default_values {
	uint32_t receive_buffer; /* bytes */
	uint32_t send_buffer;
	uint32_t send_queue; /* work requests */
	uint32_t receive_queue;
	uint32_t inline_data; /* bytes */
	uint32_t iomap_size;  /* mappings */
	uint32_t polling_time_us;
	uint32_t wake_up_interval_ms;
};

/* Read once, when the first socket is made. */
const struct rs_default_values *rs_defaults(void);

/* The smallest send buffer, and the free bytes of it without which nothing is sent. */
#define RS_SEND_LOW_WATER 2048u
/* Sequence numbers of messages have 16 bits. */
#define RS_QUEUE_MAX 0xfffeu
#define RS_QUEUE_MIN 16u

#endif
