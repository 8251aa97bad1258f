// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/udp"
)

// TRPPort is a UDP port of TRP: one that requests come to, or, as urdma has it,
// that of one association.
type TRPPort struct {
	// immutable after BindTRP
	eng  *Engine
	in   *trpInput
	id   uint64          // in it
	raw  *udp.Socket     // what the poller waits for
	sock faultcap.Socket // raw, or a tap around it
	addr netip.AddrPort
	zone string // the interface of a link-local address

	taker atomic.Pointer[trpTaker] // nil: what comes is dropped

	rxMu    sync.Mutex  // held while reading, by who has trpInput's; taken with TryLock except by Close
	closing atomic.Bool // whoever gets rxMu next closes the socket
	closed  bool        // guarded by rxMu
}

// trpTaker is for whom datagrams come to a port.
type trpTaker interface {
	// take handles n messages of a batch. The caller holds rxMu.
	take(now monotime.Time, b *udp.RxBatch, n int)
	// refused tells that the network says that nobody has the port that a datagram
	// went to.
	refused(now monotime.Time, dst netip.AddrPort)
}

// BindTRP opens a UDP port for TRP, 0 one that is free. The address may be a
// wildcard.
//
// Errors: EADDRINUSE if any program has the port; EADDRNOTAVAIL.
func (e *Engine) BindTRP(addr netip.AddrPort) (*TRPPort, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	in, err := e.trpInputLocked()
	if err != nil {
		return nil, err
	}
	s, err := udp.Listen(addr.Addr(), addr.Port(), udp.Options{Errors: true})
	if err != nil {
		return nil, err
	}
	p := &TRPPort{eng: e, in: in, raw: s, sock: e.tappedAs(s, nil), zone: addr.Addr().Zone()}
	p.addr = netip.AddrPortFrom(addr.Addr(), s.LocalAddr().Port())
	if err := in.add(p); err != nil {
		detach(p.sock)
		s.Close()
		return nil, err
	}
	return p, nil
}

// Addr returns the address and port, with the zone of a link-local one.
func (p *TRPPort) Addr() netip.AddrPort { return p.addr }

// Close gives the port back, which is free when it returns. It waits for who
// reads it, so what that calls must not call it.
func (p *TRPPort) Close() {
	p.drop()
	p.rxMu.Lock() // a reader that drop has met is done
	//lint:ignore SA2001 the wait is all that the lock is for
	p.rxMu.Unlock()
	p.finish()
}

// drop is Close that does not wait: the port is free when nobody reads it.
func (p *TRPPort) drop() {
	p.taker.Store(nil)
	if p.in.remove(p) {
		p.closing.Store(true)
	}
	p.finish()
}

// give has a taker take what comes, nil nobody.
func (p *TRPPort) give(t trpTaker) {
	if t == nil {
		p.taker.Store(nil)
		return
	}
	p.taker.Store(&t)
}

// trpBatches are what ports are read into: one for each thread that reads, not
// one for each association.
var trpBatches = sync.Pool{New: func() any { return udp.NewRxBatch() }}

// poll reads what has arrived.
func (p *TRPPort) poll() (n int) {
	if !p.rxMu.TryLock() {
		return 0 // it is being closed
	}
	if !p.closing.Load() {
		n = p.read()
	}
	p.rxMu.Unlock()
	p.finish()
	return n
}

// read handles one batch. The caller holds rxMu.
func (p *TRPPort) read() int {
	b := trpBatches.Get().(*udp.RxBatch)
	n, err := p.sock.ReadBatch(b)
	if err != nil {
		p.eng.wire.readErrors.Add(1)
	}
	if n > 0 {
		if t := p.taker.Load(); t != nil {
			(*t).take(monotime.Now(), b, n)
		}
	}
	trpBatches.Put(b)
	if n == 0 {
		p.hearErrors()
	}
	return n
}

// hearErrors passes on what the network says of datagrams sent.
func (p *TRPPort) hearErrors() {
	for dst, ok := p.raw.Refused(); ok; dst, ok = p.raw.Refused() {
		if t := p.taker.Load(); t != nil {
			(*t).refused(monotime.Now(), netip.AddrPortFrom(dst.Addr().WithZone(""), dst.Port()))
		}
	}
}

// finish closes the socket if that is due and nobody reads; who reads comes here
// when it is done.
func (p *TRPPort) finish() {
	if !p.closing.Load() || !p.rxMu.TryLock() {
		return
	}
	was := p.closed
	p.closed = true
	p.rxMu.Unlock()
	if !was {
		detach(p.sock)
		p.raw.Close()
	}
}

// trpOutput is what has trains to be sent.
type trpOutput interface {
	PollOutput(now monotime.Time, b *trp.Burst) bool
}

// trpPumper is the memory of one pump.
type trpPumper struct {
	bursts [trainsPerWrite]*trp.Burst
	out    [trainsPerWrite]udp.Datagrams
}

var trpPumpers = sync.Pool{New: func() any {
	p := &trpPumper{}
	for i := range p.bursts {
		p.bursts[i] = trp.NewBurst()
	}
	return p
}}

// drain writes what a machine has to send. The caller holds mu, which is given
// back while the system writes; nobody else drains meanwhile.
func (p *TRPPort) drain(now monotime.Time, mu *sync.Mutex, m trpOutput) {
	var w *trpPumper
	for {
		limit := trp.MaxSegments
		if !p.sock.SegmentsTrains() {
			limit = 1
		}
		n := 0
		for ; n < trainsPerWrite; n++ {
			if w == nil {
				w = trpPumpers.Get().(*trpPumper)
			}
			w.bursts[n].Limit(limit)
			if !m.PollOutput(now, w.bursts[n]) {
				break
			}
		}
		if n == 0 {
			break
		}
		mu.Unlock()
		p.write(w, n)
		mu.Lock()
	}
	if w != nil {
		trpPumpers.Put(w)
	}
}

// write sends n trains. What the system does not take within writePatience is
// lost, as on any network.
func (p *TRPPort) write(w *trpPumper, n int) {
	for i, b := range w.bursts[:n] {
		b.Seal()
		dst := b.Dst()
		if a := dst.Addr(); a.IsLinkLocalUnicast() && a.Is6() {
			dst = netip.AddrPortFrom(a.WithZone(p.zone), dst.Port())
		}
		w.out[i] = udp.Datagrams{Dst: dst, Iov: b.Iov()}
		if b.Len() > 1 {
			w.out[i].SegmentSize = b.SegmentBytes()
		}
	}
	writeAll(p.sock, w.out[:n])
	clear(w.out[:n])
	for _, b := range w.bursts[:n] {
		b.Reset()
	}
}
