/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cookies: what the engine calls our objects in events. A cookie is given out
 * once, so that the event of an object that is gone finds nothing.
 */
#ifndef VERBENA_COOKIE_H
#define VERBENA_COOKIE_H

#include "front.h"

/* What an object with events keeps for them. */
struct vb_source {
	void *object;
	vb_cookie cookie;
	/* guarded by the cookies' lock: events handed to the application */
	uint32_t comp_reported;
	uint32_t async_reported;
};

/* Gives source a cookie: 0 or ENOMEM. */
int vb_cookie_new(struct vb_source *source, void *object);

/*
 * Takes the cookie back. From then on no event of the object is handed out and
 * its counts stand still.
 */
void vb_cookie_drop(struct vb_source *source);

/*
 * Finds the object of a cookie and counts an event that is handed out with it:
 * its destruction waits until the event is acknowledged. NULL if it is gone.
 */
void *vb_cookie_report_comp(vb_cookie cookie);
void *vb_cookie_report_async(vb_cookie cookie);

#endif
