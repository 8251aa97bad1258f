/* SPDX-License-Identifier: BSD-2-Clause */
/* What can be asked of a context without the engine (attr.c). */
#ifndef VERBENA_QUERY_H
#define VERBENA_QUERY_H

#include "front.h"

/* Fills in the queries that applications reach through a context. */
void vb_fill_queries(struct vb_context *c);

#endif
