// SPDX-License-Identifier: BSD-2-Clause

package raw

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/steer"
	"verbena/internal/sys/packet"
	"verbena/internal/wire/ether"
)

// input reads the frames of an interface while it has flows.
type input struct {
	// immutable after openInput
	link *link
	recv *packet.Receiver

	table atomic.Pointer[steer.Table[*Flow]] // replaced under Transport.mu; nil without flows

	rxMu sync.Mutex // held while reading; taken with TryLock except to close

	// guarded by rxMu
	matched []*steer.Rule[*Flow]
	closed  bool
}

// turnFrames bounds the frames of one turn, so that other inputs are not starved.
const turnFrames = 64

// openInput begins to read an interface.
//
// Errors: those of packet.OpenReceiver; the system has no descriptor left.
func openInput(l *link) (*input, error) {
	r, err := packet.OpenReceiver(l.index)
	if err != nil {
		return nil, err
	}
	in := &input{link: l, recv: r}
	if err := l.of.eng.Poller().AddDescriptor(r.FD(), 0); err != nil {
		_ = r.Close() // the first error counts
		return nil, err
	}
	l.of.eng.AddInput(in)
	return in, nil
}

// TryPoll implements engine.Input.
func (in *input) TryPoll(bool) (n int) {
	if !in.rxMu.TryLock() {
		return engine.Busy
	}
	defer in.rxMu.Unlock()
	if in.closed {
		return 0
	}
	for range turnFrames {
		frame, err := in.recv.Read()
		var broken *os.SyscallError
		switch {
		case errors.As(err, &broken): // the socket, not a frame: reading again does not help
			return n
		case err != nil:
			in.link.of.malformed.Add(1)
		case len(frame) == 0:
			return n
		default:
			in.steer(frame)
		}
		n++
	}
	return n
}

// steer gives a frame to the queue pairs that it is for.
func (in *input) steer(frame []byte) {
	h, ok := ether.Parse(frame)
	if !ok {
		return
	}
	in.matched = in.table.Load().Match(in.matched[:0], &h)
	if len(in.matched) == 0 {
		return
	}
	now := monotime.Now()
	for _, r := range in.matched {
		r.To.take(now, &h)
	}
}

// Stop implements engine.Input.
func (in *input) Stop() {
	in.link.of.eng.Poller().RemoveDescriptor(in.recv.FD())
	in.rxMu.Lock()
	defer in.rxMu.Unlock()
	if !in.closed {
		in.closed = true
		_ = in.recv.Close() // nothing is written to it
	}
}
