/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the engine needs of the process before it is loaded.
 */
#ifndef VERBENA_LIMITS_H
#define VERBENA_LIMITS_H

/* Says whether there is room for the engine: 0, or ENOMEM or EMFILE and in *why the reason. */
int vb_limits_allow_engine(const char **why);

#endif
