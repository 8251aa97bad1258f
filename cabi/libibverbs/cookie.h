/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cookies: the numbers that identify our objects in the engine's events. Each is given out once, so
 * that an event of a destroyed object finds none.
 */
#ifndef VERBENA_COOKIE_H
#define VERBENA_COOKIE_H

#include "front.h"

/* The part of an object that has events. */
struct vb_source {
	void *object;
	vb_cookie cookie;
	/* guarded by the cookies' lock: events handed to the application */
	uint32_t comp_reported;
	uint32_t async_reported;
};

/* Gives source a cookie: 0 or ENOMEM. */
int vb_cookie_new(struct vb_source *source, void *object);

/* Ends the cookie. From then on no event of the object is handed out, and its counts stay. */
void vb_cookie_drop(struct vb_source *source);

/*
 * Returns the object of a cookie, and counts an event that is handed out with it: the destruction
 * of the object waits for the acknowledgement. NULL if the object is gone.
 */
void *vb_cookie_report_comp(vb_cookie cookie);
void *vb_cookie_report_async(vb_cookie cookie);

#endif
