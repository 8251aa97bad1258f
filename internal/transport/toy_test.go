// SPDX-License-Identifier: BSD-2-Clause

package transport

import (
	"net/netip"
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/rig"
	wire "verbena/internal/wire/roce"
)

// toy is a transport over a slice, which holds the packets of its queue pairs until a thread polls.
// It is all that a new transport needs, beside its row in drivers and its kind.
type toy struct {
	engine.BaseComponent
	eng *engine.Engine

	rxMu sync.Mutex // held while reading

	mu   sync.Mutex
	sent [][]byte // guarded by mu
}

func toyOf(e *engine.Engine) *toy {
	return engine.ComponentOf(e, func(e *engine.Engine) *toy {
		t := &toy{eng: e}
		e.AddInput(t)
		return t
	})
}

// toyDriver implements engine.Driver.
type toyDriver struct{}

func (toyDriver) CounterNames() []string { return roce.CounterNames() }

func (toyDriver) NewConn(e *engine.Engine, q *engine.QPSpec) (*engine.Conn, error) {
	c := &toyConn{toy: toyOf(e)}
	err := e.NewConn(&c.Conn, c, engine.ConnOptions{Counters: q.Counters, OnEvent: q.OnEvent}, func(n ib.QPN) qp.Machine {
		c.packets = rc.New(q.Config(n))
		return c.packets
	})
	return &c.Conn, err
}

// toyConn is a queue pair of the toy.
type toyConn struct {
	engine.Conn
	toy     *toy
	packets roce.Machine
}

func (c *toyConn) FlushOutput(now monotime.Time) {
	b := roce.NewBurst()
	for {
		memory := make([]byte, 128<<10)
		b.Into(memory, false)
		if !c.packets.PollOutput(now, b) {
			return
		}
		c.toy.mu.Lock()
		for at := 0; at < b.Bytes(); at += b.SegmentBytes() {
			c.toy.sent = append(c.toy.sent, memory[at:min(at+b.SegmentBytes(), b.Bytes())])
		}
		c.toy.mu.Unlock()
		b.Reset()
	}
}

func (c *toyConn) NotePost() {}

func (c *toyConn) FlushDelayedAck(monotime.Time) {}

func (c *toyConn) PrepareModify(attr *ib.QPAttr, mask ib.QPAttrMask, src netip.Addr) (func(monotime.Time), error) {
	var path *roce.Path
	if mask&ib.QPAV != 0 {
		path = roce.NewPath(src, 1, &attr.AH.GRH)
	}
	return func(now monotime.Time) { c.packets.Modify(now, attr, mask, path) }, nil
}

func (c *toyConn) Route() engine.Route { return engine.Route{} }

func (c *toyConn) Detach() (release func()) { return func() {} }

// TryPoll implements engine.Input.
func (t *toy) TryPoll(bool) int {
	if !t.rxMu.TryLock() {
		return engine.Busy
	}
	defer t.rxMu.Unlock()
	t.mu.Lock()
	sent := t.sent
	t.sent = nil
	t.mu.Unlock()
	var p wire.Packet
	for _, b := range sent {
		if p.Parse(b) != wire.WellFormed {
			continue
		}
		c, ok := t.eng.Find(p.DestQP).Transport().(*toyConn)
		if !ok {
			continue
		}
		now := monotime.Now()
		c.Lock()
		c.packets.HandleInput(now, &p, &roce.Meta{Src: toyAddr, Dst: toyAddr, SrcPort: 1, Long: true})
		c.PumpUnlock(now)
	}
	return len(sent)
}

// Stop implements engine.Input.
func (t *toy) Stop() {}

var toyAddr = netip.MustParseAddr("127.0.0.1")

// A transport that neither the engine nor another package knows carries queue pairs, once it
// has a row in the table.
func TestTransportIsAddedByItsRow(t *testing.T) {
	const kind device.Kind = "toy"
	drivers[kind] = toyDriver{}
	defer delete(drivers, kind)
	n := rig.NewNode(t, engine.Options{}, Of(kind).CounterNames())
	n.Addr = toyAddr
	ends := [2]*rig.Endpoint{n.Parts(32 << 10), n.Parts(32 << 10)}
	for _, e := range ends {
		var err error
		e.Conn, err = Of(kind).NewConn(n.Eng, &engine.QPSpec{Type: ib.QPTypeRC, Counters: n.Counters, OnEvent: func(ib.EventType) {}, Config: e.Config})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.CloseOnce)
	}
	for i, e := range ends {
		for _, s := range []struct {
			a    ib.QPAttr
			mask ib.QPAttrMask
		}{
			{ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPAccessFlags},
			{ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, DestQPN: ends[1-i].QPN(), RQPSN: 5, MaxDestRdAtomic: 4, MinRNRTimer: 1,
				AH: ib.AHAttr{GRH: ib.GRH{DGID: ib.GIDFromAddr(toyAddr)}}}, ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN | ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer},
			{ib.QPAttr{State: ib.QPRTS, SQPSN: 5, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 4},
				ib.QPSQPSN | ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry | ib.QPMaxQPRdAtomic},
		} {
			if err := e.ModifyTo(&s.a, s.mask); err != nil {
				t.Fatal(err)
			}
		}
	}
	a, b := ends[0], ends[1]
	a.Pattern(len(a.Buf), 3)
	a.Write(b, len(a.Buf))
	if wc := rig.PollBoth(a, b); wc.Status != ib.WCSuccess {
		t.Fatal(wc.Err())
	}
	b.Lock()
	defer b.Unlock()
	if string(a.Buf) != string(b.Buf) {
		t.Error("the bytes are not there")
	}
}
