// SPDX-License-Identifier: BSD-2-Clause

// Command manyclients is a server of any number of connections with one completion channel,
// one completion queue and one shared receive queue. It answers each message in upper case.
//
//	manyclients -listen 127.0.0.1:7471
//	manyclients -connect 127.0.0.1:7471 -clients 100
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"sync"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:7471", "serve at this `address` of this host")
	connect := flag.String("connect", "", "be clients of the server with this `address`")
	clients := flag.Int("clients", 100, "number of connections")
	flag.Parse()
	ctx := context.Background()
	var err error
	if *connect != "" {
		err = ask(ctx, *connect, *clients)
	} else {
		err = serve(ctx, *listen)
	}
	if err != nil {
		log.Fatal(err)
	}
}

const (
	messageSize = 256
	buffers     = 512     // messages that the server can hold at once
	sending     = 1 << 32 // bit of a work request's ID: the answer in a buffer, not its receive
)

type server struct {
	pd      *verbs.PD
	channel *verbs.CompChannel
	cq      *verbs.CQ
	srq     *verbs.SRQ
	memory  *verbs.MR

	mu    sync.Mutex // held while completions are handled
	conns map[ib.QPN]*rdmacm.ID
}

// serve handles events of connections; another goroutine handles completions.
func serve(ctx context.Context, addr string) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	events := rdmacm.NewEventChannel()
	listener, err := rdmacm.NewID(events, rdmacm.TCP)
	if err != nil {
		return err
	}
	if err := listener.BindAddr(at); err != nil {
		return err
	}
	s, err := newServer(listener.Verbs())
	if err != nil {
		return err
	}
	if err := listener.Listen(0); err != nil {
		return err
	}
	fmt.Println("listening on", listener.LocalAddr())
	go func() { log.Fatal(s.complete(ctx)) }()
	for {
		e, err := events.Get(ctx)
		if err != nil {
			return err
		}
		switch e.Type {
		case rdmacm.ConnectRequest:
			if err := s.accept(e.ID); err != nil {
				log.Print(errors.Join(err, s.remove(e.ID)))
			}
		case rdmacm.Disconnected, rdmacm.Unreachable, rdmacm.ConnectError, rdmacm.Rejected:
			if err := s.remove(e.ID); err != nil {
				log.Print(err)
			}
		}
	}
}

func newServer(dev *verbs.Context) (s *server, err error) {
	if dev == nil {
		return nil, errors.New("listen at an address of one interface")
	}
	s = &server{conns: map[ib.QPN]*rdmacm.ID{}}
	if s.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if s.channel, err = dev.CreateCompChannel(); err != nil {
		return nil, err
	}
	if s.cq, err = dev.CreateCQ(2*buffers, s.channel); err != nil {
		return nil, err
	}
	if s.srq, err = s.pd.CreateSRQ(ib.SRQAttr{MaxWR: buffers, MaxSGE: 1}); err != nil {
		return nil, err
	}
	if s.memory, err = s.pd.RegMR(make([]byte, buffers*messageSize),
		ib.AccessLocalWrite); err != nil {
		return nil, err
	}
	for i := range buffers {
		if err := s.receive(uint64(i)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// receive gives a buffer to the shared receive queue.
func (s *server) receive(buffer uint64) error {
	_, err := s.srq.PostRecv(verbs.RecvWR{ID: buffer,
		SGList: []ib.SGE{s.memory.SGE(int(buffer)*messageSize, messageSize)}})
	return err
}

func (s *server) accept(id *rdmacm.ID) error {
	err := id.CreateQP(s.pd, &verbs.QPInitAttr{
		Type: ib.QPTypeRC, SendCQ: s.cq, RecvCQ: s.cq, SRQ: s.srq, SignalAll: true,
		Cap: ib.QPCap{MaxSendWR: buffers, MaxSendSGE: 1},
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.conns[id.QP().QPN()] = id
	s.mu.Unlock()
	return id.Accept(&rdmacm.ConnParam{RetryCount: 7, RNRRetryCount: 7})
}

// remove ends a connection. Disconnect flushes posted requests. DestroyQP drops completions that
// are not polled, and with them the buffers. So remove polls first.
func (s *server) remove(id *rdmacm.ID) error {
	if id.QP() == nil {
		return id.Destroy()
	}
	err := id.Disconnect()
	s.mu.Lock()
	defer s.mu.Unlock()
	err = errors.Join(err, s.drain())
	delete(s.conns, id.QP().QPN())
	return errors.Join(err, id.DestroyQP(), id.Destroy())
}

// complete handles completions, and sleeps while there are none. It asks to be notified before
// it polls, so that none is missed.
func (s *server) complete(ctx context.Context) error {
	for {
		if err := s.cq.RequestNotify(false); err != nil {
			return err
		}
		s.mu.Lock()
		err := s.drain()
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if _, err := s.channel.Wait(ctx); err != nil {
			return err
		}
	}
}

// drain polls the queue until it is empty. Its caller holds s.mu.
func (s *server) drain() error {
	var wcs [64]ib.WC
	for {
		n, err := s.cq.Poll(wcs[:])
		if n == 0 || err != nil {
			return err
		}
		for _, wc := range wcs[:n] {
			if err := s.handle(wc); err != nil {
				return err
			}
		}
	}
}

// handle answers a message from the buffer that it came in. When the answer has been sent, or if
// there is none, the buffer receives again.
func (s *server) handle(wc ib.WC) error {
	buffer := wc.WRID &^ sending
	if id := s.conns[wc.QPN]; id != nil && wc.WRID&sending == 0 && wc.Status == ib.WCSuccess {
		at := int(buffer) * messageSize
		message := s.memory.Bytes()[at : at+int(wc.ByteLen)]
		copy(message, bytes.ToUpper(message))
		answer := verbs.SendWR{ID: buffer | sending, Opcode: ib.WRSend,
			SGList: []ib.SGE{s.memory.SGE(at, len(message))}}
		if _, err := id.QP().PostSend(answer); err == nil {
			return nil
		}
	}
	return s.receive(buffer)
}
