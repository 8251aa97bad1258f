/* SPDX-License-Identifier: BSD-2-Clause */
/* An engine that is not of this library's version; its functions are never called. */
#include <stdint.h>

__attribute__((visibility("default"))) struct {
	uint32_t version;
} verbena_engine = {99};
