// SPDX-License-Identifier: BSD-2-Clause

// Package stream takes the byte streams of TCP connections out of captures, as input for tests: the
// bytes of each end, whole and in order. It is simple where package trace has bounds and gaps to
// think of.
package stream
