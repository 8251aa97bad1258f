// SPDX-License-Identifier: BSD-2-Clause

package raw

import (
	"sync"
	"sync/atomic"

	"verbena/internal/engine"
	"verbena/internal/sys/packet"
)

// ErrNoFrames reports an interface that carries no Ethernet frames.
var ErrNoFrames = packet.ErrNoFrames

// Transport is the part of raw packets of an engine.
type Transport struct {
	engine.BaseComponent
	eng *engine.Engine // immutable

	unsent    atomic.Uint64 // frames that the interface did not take
	malformed atomic.Uint64 // frames that arrived and were too long, or inconsistent

	mu sync.Mutex
	// guarded by mu
	links   map[int]*link // by the interface's number: those of new queue pairs
	dropped uint64        // by the kernel, of links whose flows are gone
}

// of returns the engine's Transport, made by the first call.
func of(e *engine.Engine) *Transport {
	return engine.ComponentOf(e, func(e *engine.Engine) *Transport {
		return &Transport{eng: e, links: map[int]*link{}}
	})
}

// AppendCounts implements engine.Component.
func (t *Transport) AppendCounts(_ *engine.DeviceCounters, l []engine.Counter) []engine.Counter {
	t.mu.Lock()
	for _, l := range t.links {
		if l.in != nil {
			t.dropped += l.in.recv.TakeDropped()
		}
	}
	dropped := t.dropped
	t.mu.Unlock()
	return append(l, engine.Counter{Name: "raw_not_sent", Value: t.unsent.Load()},
		engine.Counter{Name: "raw_malformed", Value: t.malformed.Load()},
		engine.Counter{Name: "raw_kernel_dropped", Value: dropped})
}

// link is an interface with raw packet queue pairs.
type link struct {
	// immutable after Transport.link
	of     *Transport
	index  int // of the interface
	sender *packet.Sender

	// guarded by Transport.mu
	users int
	in    *input // nil without flows
}

// link returns the link of an interface, for one user more.
//
// Errors: those of packet.OpenSender.
func (t *Transport) link(index int) (*link, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The queue pairs of an interface that has gone keep its link, which carries nothing more.
	if l := t.links[index]; l != nil && !l.sender.Stale() {
		l.users++
		return l, nil
	}
	s, err := packet.OpenSender(index)
	if err != nil {
		return nil, err
	}
	l := &link{of: t, index: index, sender: s, users: 1}
	t.links[index] = l
	return l, nil
}

// leave ends the use of a link.
func (l *link) leave() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.users--; l.users == 0 {
		if l.of.links[l.index] == l {
			delete(l.of.links, l.index)
		}
		_ = l.sender.Close() // all that it took is sent
	}
}
