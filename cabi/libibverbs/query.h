/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries of a context that need no engine (attr.c). */
#ifndef VERBENA_QUERY_H
#define VERBENA_QUERY_H

#include "front.h"

/* Fills in the queries of a context. */
void vb_fill_queries(struct vb_context *c);

#endif
