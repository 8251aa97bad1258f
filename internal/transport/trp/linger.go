// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net/netip"
	"time"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/sys/futex"
	"verbena/internal/sys/udp"
)

// linger is an association without a queue pair: one that has only its FIN
// to repeat and to answer, or a request that was refused and may come again. It
// lasts for some seconds.
type linger struct {
	engine.Conn
	trp *Transport // immutable

	// guarded by mu
	conn      *trp.Conn
	port      *Port
	listener  *Listener // that knows it; nil of a client
	ownPort   bool      // it is closed in the end
	repeating bool      // the FIN is not answered: counted in Transport.repeatingFINs
}

// linger looks after an association until it is over.
func (t *Transport) linger(p *Port, l *Listener, conn *trp.Conn) {
	r := &linger{trp: t, conn: conn, port: p, listener: l, ownPort: true}
	r.start()
	p.give(r)
}

func (r *linger) start() {
	r.trp.eng.NewNumberlessConn(&r.Conn, r, lingerMachine{r.conn})
	if r.listener != nil {
		r.listener.own(r.conn, r)
	}
	r.Lock()
	if r.repeating = r.conn.State() == trp.FinSent; r.repeating {
		r.trp.repeatingFINs.Add(1)
	}
	r.PumpUnlock(monotime.Now())
}

// lastFINs bounds the time for which a closed engine waits for peers to acknowledge the end of
// their associations. Without it, a lost FIN leaves a peer that only waits in the belief that we
// are there.
const lastFINs = 100 * time.Millisecond

// BeforeClose implements engine.Component.
func (t *Transport) BeforeClose() {
	for end := time.Now().Add(lastFINs); t.repeatingFINs.Load() > 0 && time.Now().Before(end); {
		futex.Sleep(time.Millisecond)
	}
}

func (r *linger) take(now monotime.Time, all []udp.Message) {
	r.Lock()
	for i := range all {
		m := &all[i]
		for j := range m.Segments() {
			r.conn.HandleInput(now, m.Src, m.Segment(j))
		}
	}
	r.PumpUnlock(now)
}

func (r *linger) refused(now monotime.Time, dst netip.AddrPort) {
	r.Lock()
	r.conn.HandleRefused(now, dst)
	r.PumpUnlock(now)
}

func (r *linger) repeated(now monotime.Time, from netip.AddrPort, datagram []byte) {
	r.Lock()
	r.conn.HandleInput(now, from, datagram)
	r.PumpUnlock(now)
}

// FlushOutput implements engine.Transport.
func (r *linger) FlushOutput(now monotime.Time) {
	r.port.drain(now, r.Mutex(), r.conn, nil)
	for _, ok := r.conn.PollEvent(); ok; _, ok = r.conn.PollEvent() {
	}
	if r.conn.State() == trp.Closed {
		r.End()
		r.SetAfter(r.over)
	}
	if r.repeating && r.conn.State() != trp.FinSent {
		r.repeating = false
		r.trp.repeatingFINs.Add(-1)
	}
}

// over ends the linger once drain has found its association at its end.
func (r *linger) over() {
	r.EndTimer()
	if r.listener != nil {
		r.listener.forget(r.conn)
	}
	if r.ownPort {
		r.port.drop()
	}
}

// NotePost implements engine.Transport.
func (r *linger) NotePost() {}

// FlushDelayedAck implements engine.Transport.
func (r *linger) FlushDelayedAck(monotime.Time) {}

// PrepareModify implements engine.Transport.
func (r *linger) PrepareModify(*ib.QPAttr, ib.QPAttrMask, netip.Addr) (func(monotime.Time), error) {
	return func(monotime.Time) {}, nil
}

// Route implements engine.Transport.
func (r *linger) Route() engine.Route { return engine.Route{} }

// Detach implements engine.Transport.
func (r *linger) Detach() (release func()) { return func() {} }

// lingerMachine lets an association without a queue pair be a Conn's machine.
type lingerMachine struct{ conn *trp.Conn }

func (m lingerMachine) Doorbell(monotime.Time)                {}
func (m lingerMachine) HandleTimeout(now monotime.Time)       { m.conn.HandleTimeout(now) }
func (m lingerMachine) NextTimeout() monotime.Time            { return m.conn.NextTimeout() }
func (m lingerMachine) PollEvent() (ib.EventType, bool)       { return 0, false }
func (m lingerMachine) Cause() ib.VendorErr                   { return ib.VendorNone }
func (m lingerMachine) Query(*ib.QPAttr)                      {}
func (m lingerMachine) State() ib.QPState                     { return ib.QPErr }
func (m lingerMachine) Received() uint32                      { return 0 }
func (m lingerMachine) AppendCounts(counts []uint64) []uint64 { return counts }
