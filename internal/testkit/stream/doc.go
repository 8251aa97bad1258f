// SPDX-License-Identifier: BSD-2-Clause

// Package stream takes the byte streams of TCP connections out of captures, as
// input for tests: what each end sent, whole and in order. It is simple where
// package trace has bounds and gaps to think of.
package stream
