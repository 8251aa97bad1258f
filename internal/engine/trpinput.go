// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"verbena/internal/sys/tcp"
)

// trpInput is where all ports of TRP are read. There is one, from the first port
// on: a port for each association is too many to ask each.
type trpInput struct {
	// immutable after newTRPInput
	eng *Engine
	set *tcp.Set // nil where the system has none: every port is asked

	mu     sync.Mutex // a leaf
	nextID uint64
	byID   map[uint64]*TRPPort

	ports atomic.Pointer[[]*TRPPort] // replaced under mu, never changed in place

	rxMu   sync.Mutex // held while reading; taken with TryLock except to close
	closed bool       // guarded by rxMu
}

// maxDirectPorts is how many ports are asked one by one: that costs less than
// asking the set and then the one that has something.
const maxDirectPorts = 4

// trpInputLocked returns the engine's, beginning it for the first caller.
// Engine.mu is held.
func (e *Engine) trpInputLocked() (*trpInput, error) {
	if e.closed {
		return nil, fmt.Errorf("engine: closed")
	}
	if e.trp != nil {
		return e.trp, nil
	}
	in := &trpInput{eng: e, byID: map[uint64]*TRPPort{}}
	in.ports.Store(&[]*TRPPort{})
	if set, err := tcp.NewSet(); err == nil {
		if err := e.bg.poller.AddDescriptor(set.FD(), 0); err != nil {
			set.Close()
			return nil, err
		}
		in.set = set
	}
	e.addInput(in)
	e.trp = in
	return in, nil
}

// add has a port read.
func (in *trpInput) add(p *TRPPort) (err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.nextID++
	p.id = in.nextID
	if in.set != nil {
		err = in.set.Add(p.raw.FD(), p.id, tcp.WantRead)
	} else {
		err = in.eng.bg.poller.Add(p.raw, 0)
	}
	if err != nil {
		return err
	}
	in.byID[p.id] = p
	ports := append(slices.Clone(*in.ports.Load()), p)
	in.ports.Store(&ports)
	return nil
}

// remove ends add; false if that was done before.
func (in *trpInput) remove(p *TRPPort) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.byID[p.id] != p {
		return false
	}
	delete(in.byID, p.id)
	ports := slices.DeleteFunc(slices.Clone(*in.ports.Load()), func(o *TRPPort) bool { return o == p })
	in.ports.Store(&ports)
	if in.set != nil {
		_ = in.set.Remove(p.raw.FD()) // it is there: add put it there
	} else {
		in.eng.bg.poller.Remove(p.raw)
	}
	return true
}

func (in *trpInput) port(id uint64) *TRPPort {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.byID[id]
}

func (in *trpInput) tryPoll(bool) (n int) {
	if !in.rxMu.TryLock() {
		return busy
	}
	defer in.rxMu.Unlock()
	if in.closed {
		return 0
	}
	if ports := *in.ports.Load(); in.set == nil || len(ports) <= maxDirectPorts {
		for _, p := range ports {
			n += p.poll()
		}
		return n
	}
	events, err := in.set.Ready()
	if err != nil {
		in.eng.wire.readErrors.Add(1)
	}
	for _, ev := range events {
		if p := in.port(ev.ID); p != nil {
			n += p.poll()
		}
	}
	return n
}

// close ends reading, and closes the ports that are left.
func (in *trpInput) close() {
	for _, p := range *in.ports.Load() {
		p.drop()
	}
	if in.set == nil {
		return
	}
	in.eng.bg.poller.RemoveDescriptor(in.set.FD())
	in.rxMu.Lock()
	in.closed = true
	in.rxMu.Unlock()
	in.set.Close()
}
