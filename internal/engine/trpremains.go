// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"
	"time"

	"verbena/ib"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/sys/futex"
	"verbena/internal/sys/udp"
)

// trpRemains is an association without a queue pair: one that has only its FIN
// to repeat and to answer, or a request that was refused and may come again. It
// lasts for some seconds.
type trpRemains struct {
	Conn

	// guarded by mu
	conn      *trp.Conn
	port      *TRPPort
	listener  *TRPListener // that knows it; nil of a client
	ownPort   bool         // it is closed in the end
	repeating bool         // the FIN is not answered: counted in Engine.repeatingFINs
}

// remain looks after an association until it is over.
func (e *Engine) remain(p *TRPPort, l *TRPListener, conn *trp.Conn) {
	r := &trpRemains{conn: conn, port: p, listener: l, ownPort: true}
	r.start(e)
	p.give(r)
}

func (r *trpRemains) start(e *Engine) {
	r.eng = e
	r.begin()
	r.machine, r.way = remainsMachine{r.conn}, r
	if r.listener != nil {
		r.listener.own(r.conn, r)
	}
	r.mu.Lock()
	if r.repeating = r.conn.State() == trp.FinSent; r.repeating {
		e.repeatingFINs.Add(1)
	}
	r.pump(monotime.Now())
}

// lastFINs is how long an engine that is closed waits for peers to answer that
// their associations are over. Without, a lost FIN leaves a peer that only waits
// in the belief that we are there.
const lastFINs = 100 * time.Millisecond

func (e *Engine) awaitFINs() {
	for end := time.Now().Add(lastFINs); e.repeatingFINs.Load() > 0 && time.Now().Before(end); {
		futex.Sleep(time.Millisecond)
	}
}

func (r *trpRemains) take(now monotime.Time, b *udp.RxBatch, n int) {
	r.mu.Lock()
	for i := range n {
		m := b.Message(i)
		for j := range m.Segments() {
			r.conn.HandleInput(now, m.Src, m.Segment(j))
		}
	}
	r.pump(now)
}

func (r *trpRemains) refused(now monotime.Time, dst netip.AddrPort) {
	r.mu.Lock()
	r.conn.HandleRefused(now, dst)
	r.pump(now)
}

func (r *trpRemains) repeated(now monotime.Time, from netip.AddrPort, datagram []byte) {
	r.mu.Lock()
	r.conn.HandleInput(now, from, datagram)
	r.pump(now)
}

func (r *trpRemains) drain(now monotime.Time) {
	r.port.drain(now, r.mu, r.conn)
	for _, ok := r.conn.PollEvent(); ok; _, ok = r.conn.PollEvent() {
	}
	if r.conn.State() == trp.Closed {
		r.closed = true
		r.after = r.over
	}
	if r.repeating && r.conn.State() != trp.FinSent {
		r.repeating = false
		r.eng.repeatingFINs.Add(-1)
	}
}

// over ends what drain has found to be at its end.
func (r *trpRemains) over() {
	r.eng.timers.remove(&r.alarm)
	if r.listener != nil {
		r.listener.forget(r.conn)
	}
	if r.ownPort {
		r.port.drop()
	}
}

func (r *trpRemains) posted()              {}
func (r *trpRemains) settle(monotime.Time) {}
func (r *trpRemains) modification(*ib.QPAttr, ib.QPAttrMask, netip.Addr) (func(monotime.Time), error) {
	return func(monotime.Time) {}, nil
}
func (r *trpRemains) end() (release func()) { return func() {} }

// remainsMachine is an association as the machine of a queue pair that is none.
type remainsMachine struct{ conn *trp.Conn }

func (m remainsMachine) Doorbell(monotime.Time)                {}
func (m remainsMachine) HandleTimeout(now monotime.Time)       { m.conn.HandleTimeout(now) }
func (m remainsMachine) NextTimeout() monotime.Time            { return m.conn.NextTimeout() }
func (m remainsMachine) PollEvent() (ib.EventType, bool)       { return 0, false }
func (m remainsMachine) Query(*ib.QPAttr)                      {}
func (m remainsMachine) State() ib.QPState                     { return ib.QPErr }
func (m remainsMachine) AppendCounts(counts []uint64) []uint64 { return counts }
