// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"slices"
	"sync"
	"sync/atomic"

	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/sys/tcp"
)

// input reads all ports of TRP. There is one, from the first port on: with a port for each
// association there are too many to poll each.
type input struct {
	// immutable after inputLocked
	eng *engine.Engine
	set *tcp.Set // nil where the system has none: every port is asked

	mu     sync.Mutex // a leaf
	nextID uint64
	byID   map[uint64]*Port

	ports atomic.Pointer[[]*Port] // replaced under mu, never changed in place

	rxMu   sync.Mutex // held while reading; taken with TryLock except to close
	closed bool       // guarded by rxMu
}

// inputLocked returns the engine's, beginning it for the first caller.
// Transport.mu is held.
func (t *Transport) inputLocked() (*input, error) {
	if err := t.eng.Closed(); err != nil {
		return nil, err
	}
	if t.in != nil {
		return t.in, nil
	}
	in := &input{eng: t.eng, byID: map[uint64]*Port{}}
	in.ports.Store(&[]*Port{})
	if set, err := tcp.NewSet(); err == nil {
		if err := t.eng.Poller().AddDescriptor(set.FD(), 0); err != nil {
			set.Close()
			return nil, err
		}
		in.set = set
	}
	t.eng.AddInput(in)
	t.in = in
	return in, nil
}

// add has a port read.
func (in *input) add(p *Port) (err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.nextID++
	p.id = in.nextID
	if in.set != nil {
		err = in.set.Add(p.raw.FD(), p.id, tcp.WantRead)
	} else {
		err = in.eng.Poller().Add(p.raw, 0)
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
func (in *input) remove(p *Port) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.byID[p.id] != p {
		return false
	}
	delete(in.byID, p.id)
	ports := slices.DeleteFunc(slices.Clone(*in.ports.Load()), func(o *Port) bool { return o == p })
	in.ports.Store(&ports)
	if in.set != nil {
		_ = in.set.Remove(p.raw.FD()) // it is there: add put it there
	} else {
		in.eng.Poller().Remove(p.raw)
	}
	return true
}

func (in *input) port(id uint64) *Port {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.byID[id]
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
	if ports := *in.ports.Load(); in.set == nil || len(ports) <= policy.DirectPorts {
		for _, p := range ports {
			n += p.poll()
		}
		return n
	}
	events, err := in.set.Ready()
	if err != nil {
		in.eng.CountReadError()
	}
	for _, ev := range events {
		if p := in.port(ev.ID); p != nil {
			n += p.poll()
		}
	}
	return n
}

// Stop implements engine.Input: it closes the ports that are left.
func (in *input) Stop() {
	for _, p := range *in.ports.Load() {
		p.drop()
	}
	if in.set == nil {
		return
	}
	in.eng.Poller().RemoveDescriptor(in.set.FD())
	in.rxMu.Lock()
	in.closed = true
	in.rxMu.Unlock()
	in.set.Close()
}
