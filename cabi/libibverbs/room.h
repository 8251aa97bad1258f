/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the engine needs of the process before it is loaded.
 */
#ifndef VERBENA_ROOM_H
#define VERBENA_ROOM_H

/* Says whether there is room for the engine: 0, or ENOMEM or EMFILE and in *why the reason. */
int vb_room_for_engine(const char **why);

#endif
