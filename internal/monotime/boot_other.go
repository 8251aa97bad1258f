// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package monotime

// booted is the time of day at Time 0.
var booted = Time(start.UnixNano())
