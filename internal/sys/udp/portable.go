// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/internal/monotime"
)

// portableQueue is the number of datagrams a portable socket holds for its
// reader; beyond that they wait in the system's buffer.
const portableQueue = 128

// portable is a socket of package net. A goroutine reads it, because package
// net has no read that does not block.
type portable struct {
	// immutable after construction
	conn  *net.UDPConn
	local netip.AddrPort
	count *counters
	gone  sync.WaitGroup // the reading goroutine

	txMu sync.Mutex
	tx   []byte // guarded by txMu: a datagram gathered

	mu     sync.Mutex
	room   sync.Cond               // guarded by mu: the queue has room, or closed
	queue  [portableQueue]received // guarded by mu: a ring
	head   int                     // guarded by mu
	n      int                     // guarded by mu
	err    error                   // guarded by mu: why reading ended
	closed bool                    // guarded by mu
	wake   atomic.Pointer[func()]  // called when the queue gains its first datagram
}

type received struct {
	data []byte
	src  netip.AddrPort
}

func (s *Socket) listenPortable(ap netip.AddrPort, o Options) error {
	if o.ReusePort && !portableReusePort {
		return errors.New("sharing a port is not supported on this system")
	}
	conn, err := openPortable(ap, o)
	if err != nil {
		return err
	}
	conn.SetReadBuffer(o.BufferBytes)
	conn.SetWriteBuffer(o.BufferBytes)
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	s.local = netip.AddrPortFrom(local.Addr().Unmap().WithZone(""), local.Port())
	p := &portable{conn: conn, local: s.local, count: &s.count}
	p.room.L = &p.mu
	s.io = p
	if !o.SendOnly {
		p.gone.Add(1)
		go p.read()
	}
	return nil
}

func openPortable(ap netip.AddrPort, o Options) (*net.UDPConn, error) {
	network := "udp4"
	if ap.Addr().Is6() {
		network = "udp6"
	}
	if ap.Addr().IsMulticast() {
		var ifi *net.Interface
		if o.Interface != 0 {
			var err error
			if ifi, err = net.InterfaceByIndex(o.Interface); err != nil {
				return nil, err
			}
		}
		return net.ListenMulticastUDP(network, ifi, net.UDPAddrFromAddrPort(ap))
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return controlPortable(c, ap.Addr(), o)
	}}
	conn, err := lc.ListenPacket(context.Background(), network, ap.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// read moves datagrams to the queue until the socket is closed.
func (p *portable) read() {
	defer p.gone.Done()
	buf := make([]byte, rxBufferBytes)
	for {
		n, src, err := p.conn.ReadFromUDPAddrPort(buf)
		if err != nil && errors.Is(err, net.ErrClosed) {
			return
		}
		p.mu.Lock()
		for p.n == portableQueue && !p.closed {
			p.room.Wait()
		}
		if p.closed {
			p.mu.Unlock()
			return
		}
		first := p.n == 0
		if err != nil {
			// An ICMP error on systems that report it: a lost packet.
			p.count.unreachable.Add(1)
		} else {
			q := &p.queue[(p.head+p.n)%portableQueue]
			q.data = append(q.data[:0], buf[:n]...)
			q.src = netip.AddrPortFrom(src.Addr().Unmap().WithZone(""), src.Port())
			p.n++
		}
		p.mu.Unlock()
		if wake := p.wake.Load(); first && wake != nil {
			(*wake)()
		}
	}
}

func (p *portable) readBatch(b *RxBatch) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for ; n < RxMessages && p.n > 0; n++ {
		q := &p.queue[p.head]
		size := copy(b.buffer(n), q.data)
		b.msgs[n] = Message{Data: b.buffer(n)[:size], SegmentSize: size, Src: q.src,
			Dst: p.local.Addr()}
		p.head = (p.head + 1) % portableQueue
		p.n--
	}
	if n > 0 {
		p.room.Signal()
	}
	return n, p.err
}

// pending reports whether a read would find something.
func (p *portable) pending() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n > 0
}

func (p *portable) writeBatch(d []Datagrams) (int, error) {
	p.txMu.Lock()
	defer p.txMu.Unlock()
	for i := range d {
		if err := p.writeOne(&d[i]); err != nil {
			return i, err
		}
	}
	return len(d), nil
}

func (p *portable) writeOne(d *Datagrams) error {
	if !d.Dst.IsValid() || d.Dst.Addr().Unmap().Is4() != p.local.Addr().Is4() {
		return errFamily
	}
	p.tx = p.tx[:0]
	for _, v := range d.Iov {
		p.tx = append(p.tx, v...)
	}
	all, step := p.tx, d.SegmentSize
	if step < 0 || len(all) > MaxBurstBytes || step > 0 && len(all) > step*MaxSegments {
		return errBurst
	}
	if step == 0 {
		step = max(len(all), 1)
	}
	if len(all) > step {
		p.count.split.Add(1)
	}
	for first := true; first || len(all) > 0; first = false {
		one := all[:min(step, len(all))]
		all = all[len(one):]
		if _, err := p.conn.WriteToUDPAddrPort(one, d.Dst); err != nil {
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			p.countFailure(err)
			continue
		}
		p.count.sentMessages.Add(1)
		p.count.sentDatagrams.Add(1)
		p.count.sentBytes.Add(uint64(len(one)))
	}
	return nil
}

func (p *portable) countFailure(err error) {
	if isTooBig(err) {
		p.count.tooBig.Add(1)
	} else {
		p.count.unreachable.Add(1)
	}
}

func (p *portable) segments() bool                       { return false }
func (p *portable) fd() int                              { return -1 }
func (p *portable) waitWritable(monotime.Duration) error { return nil }
func (p *portable) kernelDrops() uint64                  { return 0 }
func (p *portable) refused() (netip.AddrPort, bool)      { return netip.AddrPort{}, false }

func (p *portable) close() error {
	p.mu.Lock()
	p.closed = true
	p.room.Signal()
	p.mu.Unlock()
	err := p.conn.Close()
	p.gone.Wait()
	return err
}
