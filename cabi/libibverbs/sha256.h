/* SPDX-License-Identifier: BSD-2-Clause */
/* SHA-256 of a short message (sha256.c): for GUIDs of interfaces without a MAC address. */
#ifndef VERBENA_SHA256_H
#define VERBENA_SHA256_H

#include <stddef.h>
#include <stdint.h>

void vb_sha256(const void *data, size_t size, uint8_t sum[32]);

#endif
