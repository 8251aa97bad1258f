// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// alone makes a process of a fabric the one that Dial and ListenAddr use: both
// ends in one process.
func (f *fabric) alone() *process {
	p := f.process(1)
	managerMu.Lock()
	theManager, endTally = p.manager, func() {}
	managerMu.Unlock()
	f.t.Cleanup(func() {
		managerMu.Lock()
		theManager = nil
		managerMu.Unlock()
	})
	return p
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestDialAndListenWithinOneProcess(t *testing.T) {
	newFabric(t).alone()
	ctx := within(t)
	inbox := make([]byte, 16)
	l, err := ListenAddr("127.0.0.1:0", &Options{Prepare: func(c *Conn) error {
		mr, err := c.RegMR(inbox, ib.AccessLocalWrite)
		if err != nil {
			return err
		}
		_, err = c.QP().PostRecv(verbs.RecvWR{SGList: []ib.SGE{mr.SGE(0, len(inbox))}})
		return err
	}})
	check(t, err)
	type result struct {
		c   *Conn
		err error
	}
	accepted := make(chan result, 1)
	go func() {
		c, err := l.Accept(ctx)
		accepted <- result{c, err}
	}()
	p := (&Options{}).param()
	p.PrivateData = []byte("it is me")
	client, err := Dial(ctx, l.Addr().String(), &Options{Param: p, Source: anyPort})
	check(t, err)
	r := <-accepted
	check(t, r.err)
	if string(r.c.PrivateData[:8]) != "it is me" || r.c.ID.PeerAddr() != client.ID.LocalAddr() || r.c.Peer.InitiatorDepth != deviceRdAtomic {
		t.Errorf("accepted %q from %v, %+v", r.c.PrivateData, r.c.ID.PeerAddr(), r.c.Peer)
	}
	_, err = client.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, Inline: []byte("over loopback")})
	check(t, err)
	for n := 0; n == 0; time.Sleep(10 * time.Microsecond) {
		var wc [1]ib.WC
		n, err = r.c.RecvCQ.Poll(wc[:])
		check(t, err)
	}
	if string(inbox[:13]) != "over loopback" {
		t.Errorf("received %q", inbox)
	}
	check(t, client.Close())
	check(t, r.c.Wait(ctx))
	check(t, r.c.Close())
	check(t, l.Close())
}

func TestDialFailures(t *testing.T) {
	newFabric(t).alone()
	ctx := within(t)
	var re *RejectedError
	if _, err := Dial(ctx, "127.0.0.1:9", nil); !errors.As(err, &re) || re.Reason != RejectNoListener {
		t.Errorf("nobody listens: %v", err)
	}
	boom := errors.New("boom")
	if _, err := Dial(ctx, "127.0.0.1:9", &Options{Prepare: func(c *Conn) error {
		_, err := c.RegMR(make([]byte, 8), 0)
		return errors.Join(err, boom)
	}}); !errors.Is(err, boom) || errors.Is(err, syscall.EBUSY) {
		t.Errorf("Prepare fails: %v", err)
	}
	for _, addr := range []string{"127.0.0.1", "127.0.0.1:nonsense"} {
		if _, err := Dial(ctx, addr, nil); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%q: %v", addr, err)
		}
	}
	l, err := ListenAddr("127.0.0.1:0", nil)
	check(t, err)
	if _, err := ListenAddr("127.0.0.1:"+strconv.Itoa(int(l.Addr().Port())), nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("port in use: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := l.Accept(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	check(t, l.Close())
}

// A peer that gives up before it is established is passed over.
func TestAcceptPassesOverAPeerThatGaveUp(t *testing.T) {
	newFabric(t).alone()
	ctx := within(t)
	giveUp := make(chan *Conn, 1)
	first := true
	l, err := ListenAddr("127.0.0.1:0", &Options{Prepare: func(*Conn) error {
		if first { // the first client goes while the server makes its queue pair
			first = false
			check(t, (<-giveUp).ID.Destroy())
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	}})
	check(t, err)
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err == nil {
			err = c.Close()
		}
		done <- err
	}()
	ch := NewEventChannel()
	id, err := NewID(ch, TCP)
	check(t, err)
	check(t, id.ResolveAddr(ctx, anyPort, l.Addr()))
	check(t, id.ResolveRoute())
	check(t, id.Connect(&ConnParam{QPN: 0x77}))
	giveUp <- &Conn{ID: id}
	second, err := Dial(ctx, l.Addr().String(), nil)
	check(t, err)
	check(t, <-done)
	check(t, second.Close())
	check(t, l.Close())
}
