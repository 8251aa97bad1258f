// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"verbena/internal/engine"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/udp"
)

// Port is a UDP port of TRP: one that requests come to, or, as urdma has it,
// that of one association.
type Port struct {
	// immutable after Bind
	trp  *Transport
	in   *input
	id   uint64          // in it
	raw  *udp.Socket     // the poller waits for it
	sock faultcap.Socket // raw, or a tap around it, or frames beside it
	addr netip.AddrPort
	zone string // the interface of a link-local address
	// unsteer ends that frames bring datagrams; nil where they bring none. It blocks.
	unsteer  func()
	released chan struct{} // closed when the socket is

	taker atomic.Pointer[receiver] // nil: datagrams are dropped

	frameMu sync.Mutex // held while messages of frames are taken

	// held while reading, by the thread that holds input's; taken with TryLock except by Close
	rxMu    sync.Mutex
	closing atomic.Bool // the next holder of rxMu closes the socket
	closed  bool        // guarded by rxMu
}

// receiver takes the datagrams of a port.
type receiver interface {
	// take handles messages of a batch. The caller holds rxMu or frameMu.
	take(now monotime.Time, m []udp.Message)
	// refused is called when the network reports that no socket has the port that a datagram went
	// to.
	refused(now monotime.Time, dst netip.AddrPort)
}

// Bind opens a UDP port for TRP, 0 one that is free. The address may be a
// wildcard.
//
// Errors: EADDRINUSE if any program has the port; EADDRNOTAVAIL.
func (t *Transport) Bind(addr netip.AddrPort) (*Port, error) {
	t.mu.Lock()
	in, err := t.inputLocked()
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s, err := udp.Listen(addr.Addr(), addr.Port(), udp.Options{Errors: true})
	if err != nil {
		return nil, err
	}
	p := &Port{trp: t, in: in, raw: s, zone: addr.Addr().Zone(),
		released: make(chan struct{})}
	if p.sock = t.seats.Source(addr.Addr(), s, true); p.sock == nil {
		p.sock = t.eng.Tap(s, nil)
	}
	p.addr = netip.AddrPortFrom(addr.Addr(), s.LocalAddr().Port())
	p.unsteer = t.seats.Steer(addr.Addr(), s, p)
	if err := in.add(p); err != nil {
		engine.Untap(p.sock)
		p.release()
		return nil, err
	}
	return p, nil
}

// Addr returns the address and port, with the zone of a link-local one.
func (p *Port) Addr() netip.AddrPort { return p.addr }

// Close gives the port back, which is free when it returns. It waits for the thread that reads, so
// a function called from there must not call it.
func (p *Port) Close() {
	p.drop()
	p.rxMu.Lock() // a reader that drop has met is done
	//lint:ignore SA2001 the wait is all that the lock is for
	p.rxMu.Unlock()
	p.frameMu.Lock()
	//lint:ignore SA2001 as above
	p.frameMu.Unlock()
	p.finish()
	<-p.released // the thread that has closed it may be another one
}

// drop is Close that does not wait: the port is free when nobody reads it.
func (p *Port) drop() {
	p.taker.Store(nil)
	if p.in.remove(p) {
		p.closing.Store(true)
	}
	p.finish()
}

// give sets the taker of datagrams, nil for none.
func (p *Port) give(t receiver) {
	if t == nil {
		p.taker.Store(nil)
		return
	}
	p.taker.Store(&t)
}

// batches holds the buffers that ports are read into: one for each reading thread, not one for each
// association.
var batches = sync.Pool{New: func() any { return udp.NewRxBatch() }}

// poll reads arrived datagrams.
func (p *Port) poll() (n int) {
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
func (p *Port) read() int {
	b := batches.Get().(*udp.RxBatch)
	n, err := p.sock.ReadBatch(b)
	if err != nil {
		p.trp.eng.CountReadError()
	}
	if n > 0 {
		if t := p.taker.Load(); t != nil {
			(*t).take(monotime.Now(), b.Messages())
		}
	}
	batches.Put(b)
	if n == 0 {
		p.hearErrors()
	}
	return n
}

// TakeFrames implements frames.Taker.
func (p *Port) TakeFrames(now monotime.Time, m []udp.Message) {
	p.frameMu.Lock()
	if t := p.taker.Load(); t != nil {
		(*t).take(now, m)
	}
	p.frameMu.Unlock()
	p.finish()
}

// hearErrors passes on the network's errors for sent datagrams.
func (p *Port) hearErrors() {
	for dst, ok := p.raw.Refused(); ok; dst, ok = p.raw.Refused() {
		if t := p.taker.Load(); t != nil {
			(*t).refused(monotime.Now(), netip.AddrPortFrom(dst.Addr().WithZone(""), dst.Port()))
		}
	}
}

// finish closes the socket if that is due and no thread reads it or takes frames; the thread that
// does comes here when it is done.
func (p *Port) finish() {
	if !p.closing.Load() {
		return
	}
	for {
		if !p.rxMu.TryLock() {
			return
		}
		if p.frameMu.TryLock() {
			break
		}
		p.rxMu.Unlock()
		// A thread that was done meanwhile has met rxMu, and left the rest to this one.
		if !p.frameMu.TryLock() {
			return
		}
		p.frameMu.Unlock()
	}
	was := p.closed
	p.closed = true
	p.frameMu.Unlock()
	p.rxMu.Unlock()
	switch {
	case was:
	case p.unsteer == nil || p.trp.eng.Closed() != nil:
		engine.Untap(p.sock)
		p.release()
	default: // a thread that reads must not wait for the keeper
		go p.release()
	}
}

// release closes the socket.
func (p *Port) release() {
	if p.unsteer != nil {
		p.unsteer() // while no other program can have the port
	}
	p.raw.Close()
	close(p.released)
}

// output is a connection that has bursts to send.
type output interface {
	PollOutput(now monotime.Time, b *trp.Burst) bool
}

// pumper is the memory of one pump.
type pumper struct {
	bursts [engine.BurstsPerWrite]*trp.Burst
	out    [engine.BurstsPerWrite]udp.Datagrams
}

var pumpers = sync.Pool{New: func() any {
	p := &pumper{}
	for i := range p.bursts {
		p.bursts[i] = trp.NewBurst()
	}
	return p
}}

// drain writes a machine's output. The caller holds mu, which is given back while the system
// writes; no other thread drains meanwhile. comment, unless it is nil, returns the comment of the
// next packet in a capture.
func (p *Port) drain(now monotime.Time, mu *sync.Mutex, m output, comment func() string) {
	var w *pumper
	for {
		limit := trp.MaxSegments
		if !p.sock.CutsBursts() {
			limit = 1
		}
		n := 0
		for ; n < engine.BurstsPerWrite; n++ {
			if w == nil {
				w = pumpers.Get().(*pumper)
			}
			w.bursts[n].Limit(limit)
			if !m.PollOutput(now, w.bursts[n]) {
				break
			}
		}
		if n == 0 {
			break
		}
		text := ""
		if comment != nil && p.trp.eng.Capture() != nil {
			text = comment()
		}
		mu.Unlock()
		p.write(w, n, text)
		mu.Lock()
	}
	if w != nil {
		pumpers.Put(w)
	}
}

// write sends n bursts. A capture has the comment with the first packet.
func (p *Port) write(w *pumper, n int, comment string) {
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
	w.out[0].Comment = comment
	engine.WriteAll(p.sock, w.out[:n])
	clear(w.out[:n])
	for _, b := range w.bursts[:n] {
		b.Reset()
	}
}
