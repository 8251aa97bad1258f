/* SPDX-License-Identifier: BSD-2-Clause */
/* SO_KEEPALIVE: empty RDMA WRITEs, whose acknowledgements show that the peer is there. */
#ifndef VERBENA_RSOCKET_KEEPALIVE_H
#define VERBENA_RSOCKET_KEEPALIVE_H

#include "stream.h"

/* 0 or a negative errno. */
int rs_keepalive_start(struct rs_stream *st);
void rs_keepalive_stop(struct rs_stream *st);
/* 0 or a negative errno. */
int rs_keepalive_set_idle(struct rs_stream *st, int seconds);
int rs_keepalive_idle(struct rs_stream *st);

/* Sends the messages that are due. Returns the milliseconds until the next one, or -1 for none. */
int rs_keepalive_run(void);

#endif
