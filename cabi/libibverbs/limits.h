/* SPDX-License-Identifier: BSD-2-Clause */
/* The resources that the engine needs to start. */
#ifndef VERBENA_LIMITS_H
#define VERBENA_LIMITS_H

/* Returns whether there is room for the engine: 0, or ENOMEM or EMFILE with the reason in *why. */
int vb_limits_allow_engine(const char **why);

#endif
