// SPDX-License-Identifier: BSD-2-Clause

// Package monotime is the time of the protocol machines: nanoseconds on a
// clock that never steps. Machines take a Time as an argument and never read a
// clock; only the engine calls Now.
package monotime

import "time"

// Time is an instant, in nanoseconds since the process started or, in a
// simulation, since the run began. The zero Time is a valid instant.
type Time int64

// Duration is time.Duration, named here so that a machine needs no import of
// package time.
type Duration = time.Duration

// Units of Duration.
const (
	Nanosecond  = time.Nanosecond
	Microsecond = time.Microsecond
	Millisecond = time.Millisecond
	Second      = time.Second
)

// Never is later than every instant that can be scheduled.
const Never Time = 1<<63 - 1

var start = time.Now()

// Now reads the monotonic clock.
func Now() Time { return Time(time.Since(start)) }

// At returns the instant of a reading of the clock by time.Now.
func At(t time.Time) Time { return Time(t.Sub(start)) }

// NextMultiple returns the first instant after t at which the system's clock is a multiple of d. On
// Linux that is the same in all processes of a machine and time namespace.
func (t Time) NextMultiple(d Duration) Time { return nextMultiple(t, booted, d) }

func nextMultiple(t, zero Time, d Duration) Time {
	return t.Add(d - Duration(zero+t)%d)
}

// Add returns t + d.
func (t Time) Add(d Duration) Time { return t + Time(d) }

// Sub returns t - u.
func (t Time) Sub(u Time) Duration { return Duration(t - u) }

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t < u }
