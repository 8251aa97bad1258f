// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package rawbench

import (
	"net/netip"

	"verbena/internal/sys/udp"
)

// plain is a socket used for one datagram at a time.
type plain struct {
	s    *udp.Socket
	rx   *udp.RxBatch
	tx   []udp.Datagrams
	next int // message of rx to be returned
	from netip.AddrPort
}

type dest = netip.AddrPort

func openPlain(addr netip.Addr) (*plain, error) {
	s, err := udp.Listen(addr, 0, udp.Options{})
	if err != nil {
		return nil, err
	}
	return &plain{s: s, rx: udp.NewRxBatch(), tx: []udp.Datagrams{{Iov: make([][]byte, 1)}}}, nil
}

func (p *plain) local() netip.AddrPort        { return p.s.LocalAddr() }
func (p *plain) close() error                 { return p.s.Close() }
func (p *plain) dest(to netip.AddrPort) *dest { return &to }

func (p *plain) send(b []byte, to *dest) error {
	p.tx[0].Dst, p.tx[0].Iov[0] = *to, b
	_, err := p.s.WriteBatch(p.tx)
	return err
}

// receive returns the size of the datagram that was there, -1 if none was.
func (p *plain) receive(b []byte) (int, *dest, error) {
	if p.next == p.rx.Len() {
		p.next = 0
		if n, err := p.s.ReadBatch(p.rx); n == 0 {
			return -1, nil, err
		}
	}
	m := p.rx.Message(p.next)
	p.next++
	p.from = m.Src
	return copy(b, m.Data), &p.from, nil
}
