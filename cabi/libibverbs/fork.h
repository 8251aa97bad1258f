/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps around a fork, in the order of the locks (fork.c). */
#ifndef VERBENA_FORK_H
#define VERBENA_FORK_H

void vb_engine_lock(void);
void vb_engine_unlock(void);

void vb_engine_before_fork(void);
void vb_engine_after_fork_in_parent(void);
void vb_engine_after_fork_in_child(void);

void vb_share_after_fork_in_child(void);

void vb_devices_before_fork(void);
void vb_devices_after_fork(void);

void vb_cookies_before_fork(void);
void vb_cookies_after_fork(void);

void vb_channels_before_fork(void);
void vb_channels_after_fork_in_parent(void);
void vb_channels_after_fork_in_child(void);

void vb_sleepers_before_fork(void);
void vb_sleepers_after_fork_in_parent(void);
void vb_sleepers_after_fork_in_child(void);

void vb_gids_before_fork(void);
void vb_gids_after_fork_in_parent(void);
void vb_gids_after_fork_in_child(void);

#endif
