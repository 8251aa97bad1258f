// SPDX-License-Identifier: BSD-2-Clause

package tun

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Set is some TAP interfaces that one thread waits for.
type Set struct{ list []unix.PollFd }

// NewSet returns a set. Stop of the first interface ends Wait.
func NewSet(taps ...*TAP) *Set {
	s := &Set{list: []unix.PollFd{{Fd: int32(taps[0].stop), Events: unix.POLLIN}}}
	for _, t := range taps {
		s.list = append(s.list, unix.PollFd{Fd: int32(t.fd), Events: unix.POLLIN})
	}
	return s
}

// Wait waits until an interface has a frame, and d at most.
//
// Errors: ErrStopped; the system's.
func (s *Set) Wait(d time.Duration) error { return wait(s.list, d) }

// Sleep waits for d, whether there are frames or not.
//
// Errors: ErrStopped; the system's.
func (s *Set) Sleep(d time.Duration) error { return wait(s.list[:1], d) }

// wait waits for some of a set's descriptors. The first one is that of Stop.
func wait(list []unix.PollFd, d time.Duration) error {
	limit := unix.NsecToTimespec(int64(max(d, 0)))
	if _, err := unix.Ppoll(list, &limit, nil); err != nil {
		for i := range list {
			list[i].Revents = 0
		}
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("ppoll", err)
		}
	}
	if list[0].Revents != 0 {
		return ErrStopped
	}
	return nil
}

// Ready reports whether the i-th interface had a frame when Wait returned.
func (s *Set) Ready(i int) bool { return s.list[i+1].Revents != 0 }
