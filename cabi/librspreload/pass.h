/* SPDX-License-Identifier: BSD-2-Clause */
/* From a call of the application to the rsocket's or the kernel's. */
#ifndef VERBENA_RSPRELOAD_PASS_H
#define VERBENA_RSPRELOAD_PASS_H

#include "fork.h"
#include "real.h"
#include "table.h"

#include <errno.h>
#include <rdma/rsocket.h>

/* What the application calls. */
#define EXPORT __attribute__((visibility("default")))

/*
 * The value of ours, in which number is the rsocket's, if fd is one; otherwise
 * the value of kernels.
 */
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

/* Likewise for calls that move data, which make a TCP connection an rsocket if it is to be one. */
#define PASS_DATA(fd, ours, kernels) \
	({                           \
		become_rsocket(fd);  \
		PASS(fd, ours, kernels); \
	})

#endif
