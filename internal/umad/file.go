// SPDX-License-Identifier: BSD-2-Clause

package umad

import (
	"syscall"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

const (
	// maxAgents is the number of agents of a file, as in Linux (IB_UMAD_MAX_AGENTS).
	maxAgents = 32
	// maxPending bounds the requests of a file that wait for their time-out. Beyond it the oldest
	// times out at once.
	maxPending = 64
	// maxWaitMS bounds a time-out: an hour.
	maxWaitMS = 3_600_000
)

// A File is an open umadN.
type File struct {
	agents  uint32 // a bit for each that is registered
	pending []pending
	counts  func() Counters
}

// pending is a request that nobody answers.
type pending struct {
	until   monotime.Time
	message []byte // that the application reads then
}

// NewFile returns the file of a port with these counts.
func NewFile(counts func() Counters) *File { return &File{counts: counts} }

// Register adds an agent of a queue pair, 0 or 1, and returns its number.
//
// Deviation: Linux has no queue pair 0 at a RoCE port and refuses its agents. Programs such as
// perfquery register one before they ask the other.
func (f *File) Register(qpn uint32) (agent uint32, err syscall.Errno) {
	if qpn > 1 {
		return 0, syscall.EINVAL
	}
	for i := range uint32(maxAgents) {
		if f.agents&(1<<i) == 0 {
			f.agents |= 1 << i
			return i, 0
		}
	}
	return 0, syscall.ENOMEM
}

// Unregister removes an agent.
func (f *File) Unregister(agent uint32) syscall.Errno {
	if !f.has(agent) {
		return syscall.EINVAL
	}
	f.agents &^= 1 << agent
	return 0
}

func (f *File) has(agent uint32) bool { return agent < maxAgents && f.agents&(1<<agent) != 0 }

// Handle takes a message that the application wrote, and returns one for it to read, or none. It
// keeps nothing of b.
//
// Deviation: a write by an agent that is not registered succeeds, and the MAD comes back with
// EINVAL.
func (f *File) Handle(now monotime.Time, b []byte) (message []byte) {
	h, head, mad, ok := parseMessage(b)
	if !ok {
		return nil
	}
	if !f.has(h.agent) {
		return appendMessage(nil, head, uint32(syscall.EINVAL), mad[:cm.HeaderSize])
	}
	if h.lid == 0 && !h.grh {
		if reply, ok := Answer(mad, f.counts); ok {
			return appendMessage(nil, head, 0, reply[:])
		}
	}
	if mad[3]&methodReply != 0 || h.timeoutMS == 0 {
		return nil // no answer is expected
	}
	wait := min(uint64(h.timeoutMS)*(uint64(min(h.retries, maxWaitMS))+1), maxWaitMS)
	p := pending{until: now.Add(monotime.Duration(wait) * monotime.Millisecond),
		message: appendMessage(nil, head, uint32(syscall.ETIMEDOUT), mad[:cm.HeaderSize])}
	if len(f.pending) < maxPending {
		f.pending = append(f.pending, p)
		return nil
	}
	oldest := f.pending[0]
	copy(f.pending, f.pending[1:])
	f.pending[maxPending-1] = p
	return oldest.message
}

// Expire returns the message of a request that has timed out, or none.
func (f *File) Expire(now monotime.Time) (message []byte) {
	for i, p := range f.pending {
		if p.until <= now {
			f.pending = append(f.pending[:i], f.pending[i+1:]...)
			return p.message
		}
	}
	return nil
}

// NextExpiry returns when the first request times out. It is false if none waits.
func (f *File) NextExpiry() (t monotime.Time, ok bool) {
	for i, p := range f.pending {
		if i == 0 || p.until < t {
			t = p.until
		}
	}
	return t, len(f.pending) > 0
}
