/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of cookies. A cookie has an index into the table and a serial number. */
#include "cookie.h"
#include "fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define PLACE_BITS 24 /* 16 million objects at a time; serial numbers last for 2^40 */
#define PLACE_MASK ((UINT64_C(1) << PLACE_BITS) - 1)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* guarded by lock */
static struct vb_source **places;
static size_t nplaces, hint; /* hint: the search begins here */
static size_t used;
static uint64_t serial;

static void take(void)
{
	pthread_mutex_lock(&lock);
}

static void leave(void)
{
	pthread_mutex_unlock(&lock);
}

void vb_cookies_before_fork(void)
{
	take();
}

void vb_cookies_after_fork(void)
{
	leave();
}

static int grow(void)
{
	size_t n = nplaces ? nplaces * 2 : 64;
	struct vb_source **p;

	if (n > PLACE_MASK)
		return ENOMEM;
	p = realloc(places, n * sizeof(*p));
	if (!p)
		return ENOMEM;
	for (size_t i = nplaces; i < n; i++)
		p[i] = NULL;
	hint = nplaces;
	places = p;
	nplaces = n;
	return 0;
}

int vb_cookie_new(struct vb_source *source, void *object)
{
	int err = 0;

	take();
	if (used == nplaces)
		err = grow();
	if (!err) {
		while (places[hint])
			hint = (hint + 1) % nplaces;
		places[hint] = source;
		used++;
		source->object = object;
		source->comp_reported = source->async_reported = 0;
		source->cookie = ++serial << PLACE_BITS | hint;
	}
	leave();
	return err;
}

void vb_cookie_drop(struct vb_source *source)
{
	take();
	hint = source->cookie & PLACE_MASK;
	places[hint] = NULL;
	used--;
	leave();
}

static struct vb_source *find(vb_cookie cookie)
{
	size_t place = cookie & PLACE_MASK;

	if (place >= nplaces || !places[place] || places[place]->cookie != cookie)
		return NULL;
	return places[place];
}

void *vb_cookie_report_comp(vb_cookie cookie)
{
	struct vb_source *source;
	void *object = NULL;

	take();
	source = find(cookie);
	if (source) {
		source->comp_reported++;
		object = source->object;
	}
	leave();
	return object;
}

void *vb_cookie_report_async(vb_cookie cookie)
{
	struct vb_source *source;
	void *object = NULL;

	take();
	source = find(cookie);
	if (source) {
		source->async_reported++;
		object = source->object;
	}
	leave();
	return object;
}
