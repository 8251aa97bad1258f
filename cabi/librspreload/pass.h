/* SPDX-License-Identifier: BSD-2-Clause */
/* Passes a call of the application to the rsocket or to the kernel. */
#ifndef VERBENA_RSPRELOAD_PASS_H
#define VERBENA_RSPRELOAD_PASS_H

#include "fork.h"
#include "real.h"
#include "table.h"

#include <errno.h>
#include <rdma/rsocket.h>

/* A function that the application calls. */
#define EXPORT __attribute__((visibility("default")))

/* Evaluates ours if fd is an rsocket, with its number in number; otherwise kernels. */
#define PASS(fd, ours, kernels)                                            \
	({                                                                 \
		struct entry *entry_ = table_get(fd);                      \
		int number = entry_ ? atomic_load(&entry_->number) : -1;   \
		__typeof__(ours) value_;                                   \
		if (number >= 0)                                           \
			value_ = (ours);                                   \
		else                                                       \
			value_ = (kernels);                                \
		if (entry_)                                                \
			entry_put(entry_);                                 \
		value_;                                                    \
	})

/* The same for calls that move data, which first make a waiting TCP connection an rsocket. */
#define PASS_DATA(fd, ours, kernels) \
	({                           \
		become_rsocket(fd);  \
		PASS(fd, ours, kernels); \
	})

#endif
