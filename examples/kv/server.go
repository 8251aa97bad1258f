// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"sync"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

// server keeps the table. All connections complete in one queue, which one goroutine serves.
type server struct {
	table   []byte
	cq      *verbs.CQ
	channel *verbs.CompChannel

	mu        sync.Mutex
	peers     map[ib.QPN]*peer
	accepting ib.QPN // of the connection that was prepared last, until Accept returns it
}

// peer is a connection and the memory for a put that it may send.
type peer struct {
	*rdmacm.Conn
	qpn   ib.QPN
	inbox *verbs.MR
}

func serve(ctx context.Context, addr string) error {
	pd, err := domainAt(addr)
	if err != nil {
		return err
	}
	s := &server{table: newTable(), peers: map[ib.QPN]*peer{}}
	table, err := pd.RegMR(s.table, ib.AccessRemoteRead)
	if err != nil {
		return err
	}
	if s.channel, err = pd.Context().CreateCompChannel(); err != nil {
		return err
	}
	if s.cq, err = pd.Context().CreateCQ(4096, s.channel); err != nil {
		return err
	}
	where := binary.BigEndian.AppendUint64(nil, table.Addr())
	where = binary.BigEndian.AppendUint32(where, uint32(table.RKey()))
	l, err := rdmacm.ListenAddr(addr, &rdmacm.Options{
		PD: pd,
		QP: verbs.QPInitAttr{SendCQ: s.cq, RecvCQ: s.cq},
		Param: &rdmacm.ConnParam{PrivateData: where, ResponderResources: rdmacm.MaxRdAtomic,
			RNRRetryCount: 7},
		Prepare: s.prepare,
	})
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	go func() { log.Fatal(s.servePuts(ctx)) }()
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.accepting = 0
		s.mu.Unlock()
		go s.keep(ctx, c)
	}
}

// domainAt makes a protection domain on the device with a local address.
func domainAt(addr string) (*verbs.PD, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	id, err := rdmacm.NewID(rdmacm.NewEventChannel(), rdmacm.TCP)
	if err != nil {
		return nil, err
	}
	defer id.Destroy()
	if err := id.BindAddr(netip.AddrPortFrom(at.Addr(), 0)); err != nil {
		return nil, err
	}
	if id.Verbs() == nil {
		return nil, errors.New("listen at an address of one interface")
	}
	dev, err := verbs.Open(id.Verbs().Info().Name)
	if err != nil {
		return nil, err
	}
	return dev.AllocPD()
}

// prepare posts a receive on a new connection, before its peer can send. If the peer of the
// previous connection has given up, Accept has closed that connection and calls prepare again.
func (s *server) prepare(c *rdmacm.Conn) error {
	inbox, err := c.RegMR(make([]byte, slotSize), ib.AccessLocalWrite)
	if err != nil {
		return err
	}
	p := &peer{c, c.QP().QPN(), inbox}
	s.mu.Lock()
	delete(s.peers, s.accepting)
	s.peers[p.qpn], s.accepting = p, p.qpn
	s.mu.Unlock()
	return p.receive()
}

// keep closes a connection when its peer has disconnected.
func (s *server) keep(ctx context.Context, c *rdmacm.Conn) {
	err := c.Wait(ctx)
	s.mu.Lock()
	delete(s.peers, c.QP().QPN())
	s.mu.Unlock()
	if err := errors.Join(err, c.Close()); err != nil {
		log.Print(err)
	}
}

// IDs of work requests: the kind of a request.
const (
	receive = iota
	answer
)

func (p *peer) receive() error {
	_, err := p.QP().PostRecv(verbs.RecvWR{ID: receive, SGList: []ib.SGE{p.inbox.SGE(0, slotSize)}})
	return err
}

// servePuts handles completions of all connections, and sleeps while there are none.
func (s *server) servePuts(ctx context.Context) error {
	wcs := make([]ib.WC, 64)
	for {
		if err := s.cq.RequestNotify(false); err != nil {
			return err
		}
		for {
			n, err := s.cq.Poll(wcs)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			for _, wc := range wcs[:n] {
				s.mu.Lock()
				p := s.peers[wc.QPN]
				s.mu.Unlock()
				if wc.WRID == receive && wc.Status == ib.WCSuccess && p != nil {
					s.put(p, p.inbox.Bytes()[:wc.ByteLen])
				}
			}
		}
		if _, err := s.channel.Wait(ctx); err != nil {
			return err
		}
	}
}

// put stores a slot and answers. If the answer fails the connection has ended, and keep closes it.
func (s *server) put(p *peer, slot []byte) {
	var refusal string
	if len(slot) != slotSize {
		refusal = "not a slot"
	} else if err := store(s.table, slot); err != nil {
		refusal = err.Error()
	}
	if p.receive() == nil { // before the answer, after which the client may send again
		p.QP().PostSend(verbs.SendWR{ID: answer, Opcode: ib.WRSend,
			Flags: ib.SendInline | ib.SendSignaled, Inline: []byte(refusal)})
	}
}
