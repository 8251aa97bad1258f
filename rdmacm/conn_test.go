// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// ofConns runs a test of a Conn for each kind of device, with the address of a listener.
func ofConns(t *testing.T, test func(t *testing.T, addr string, o Options)) {
	roce := kindUnderTest{Kind: RoCE, addrs: []string{"127.0.0.1"}}
	for _, k := range append([]kindUnderTest{roce}, kinds...) {
		t.Run(string(k.Kind), func(t *testing.T) {
			if k.join != nil {
				k.join(t)
			}
			test(t, netip.AddrPortFrom(k.at(), 0).String(), Options{Kind: k.Kind})
		})
	}
}

// connPair returns a connection that o configures, as its client and its server have it.
func connPair(t *testing.T, addr string, o *Options) (client, server *Conn) {
	t.Helper()
	ctx := within(t)
	l, err := ListenAddr(addr, o)
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	accepted := make(chan error, 1)
	go func() {
		var err error
		server, err = l.Accept(ctx)
		accepted <- err
	}()
	client, err = Dial(ctx, l.Addr().String(), &Options{Kind: o.Kind})
	check(t, err)
	check(t, <-accepted)
	return client, server
}

// A goroutine that waits for a message gets those that the peer has sent, and learns from its other
// receives that the peer has gone.
func TestReceivesAreFlushedWhenThePeerCloses(t *testing.T) {
	ofConns(t, func(t *testing.T, addr string, o Options) {
		o.Prepare = func(c *Conn) error {
			mr, err := c.RegMR(make([]byte, 64), ib.AccessLocalWrite)
			for i := range uint64(2) {
				if err == nil {
					_, err = c.QP().PostRecv(verbs.RecvWR{ID: i, SGList: []ib.SGE{mr.SGE(0, 64)}})
				}
			}
			return err
		}
		client, server := connPair(t, addr, &o)
		ended := make(chan error, 1)
		go func() {
			want := []ib.WCStatus{ib.WCSuccess, ib.WCWRFlushErr}
			for wc, err := range server.RecvCQ.Completions(within(t)) {
				if err == nil && (wc.Status != want[0] || wc.WRID != uint64(2-len(want))) {
					err = wc.Err()
				}
				if want = want[1:]; err != nil || len(want) == 0 {
					ended <- err
					return
				}
			}
		}()
		_, err := client.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend,
			Flags: ib.SendInline | ib.SendSignaled, Inline: []byte("the last one")})
		check(t, err)
		var wc [1]ib.WC
		_, err = client.SendCQ.Wait(client.Context(), wc[:])
		check(t, err)
		check(t, wc[0].Err())
		check(t, client.Close())
		check(t, <-ended)

		if _, err := server.RecvCQ.Wait(server.Context(), wc[:]); !errors.Is(err, context.Canceled) ||
			!errors.Is(context.Cause(server.Context()), ErrDisconnected) || !errors.Is(ErrDisconnected, syscall.ECONNRESET) {
			t.Errorf("wait for another: %v, because %v", err, context.Cause(server.Context()))
		}
		if s := server.QP().State(); s != ib.QPErr {
			t.Errorf("the queue pair is in %v", s)
		}
		check(t, server.Wait(within(t)))
		check(t, server.Close())
	})
}

func TestClosedConnReturnsErrors(t *testing.T) {
	ofConns(t, func(t *testing.T, addr string, o Options) {
		client, server := connPair(t, addr, &o)
		check(t, client.Close())
		check(t, server.Close())
		var wc [1]ib.WC
		for name, call := range map[string]func() error{
			"PostSend": func() error { _, err := client.QP().PostSend(verbs.SendWR{}); return err },
			"PostRecv": func() error { _, err := client.QP().PostRecv(verbs.RecvWR{}); return err },
			"Modify": func() error {
				return client.QP().Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr)
			},
			"Poll":       func() error { _, err := client.RecvCQ.Poll(wc[:]); return err },
			"Wait of CQ": func() error { _, err := client.SendCQ.Wait(within(t), wc[:]); return err },
			"RegMR":      func() error { _, err := client.RegMR(make([]byte, 8), 0); return err },
			"Wait":       func() error { return client.Wait(within(t)) },
			"Close":      client.Close,
		} {
			if err := call(); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EBADF) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if client.QP().State(); context.Cause(client.Context()) != net.ErrClosed {
			t.Error(context.Cause(client.Context()))
		}
	})
}

// Each request is answered with private data, and options, of its own.
func TestRequestsAreAnsweredOneByOne(t *testing.T) {
	ofConns(t, func(t *testing.T, addr string, o Options) {
		ctx := within(t)
		l, err := ListenAddr(addr, &o)
		check(t, err)
		served := make(chan error, 1)
		go func() {
			served <- func() error {
				r, err := l.Request(ctx)
				if err != nil {
					return err
				}
				if err := r.Reject([]byte("not you, " + string(r.PrivateData[:5]))); err != nil {
					return err
				}
				if r, err = l.Request(ctx); err != nil {
					return err
				}
				p := (&Options{}).param()
				p.PrivateData = []byte("welcome, " + string(r.PrivateData[:6]))
				c, err := r.Accept(ctx, &Options{Param: p, QP: verbs.QPInitAttr{Cap: ib.QPCap{MaxSendWR: 7}}})
				if err != nil {
					return err
				}
				if _, err := r.Accept(ctx, nil); !errors.Is(err, syscall.EINVAL) {
					t.Errorf("accepted twice: %v", err)
				}
				if err := r.Reject(nil); !errors.Is(err, syscall.EINVAL) {
					t.Errorf("accepted and rejected: %v", err)
				}
				if c.ID.PeerAddr() != r.PeerAddr() {
					t.Errorf("the peer %v became %v", r.PeerAddr(), c.ID.PeerAddr())
				}
				if _, made := c.QP().Query(); made.Cap.MaxSendWR != 7 {
					t.Errorf("%+v", made.Cap)
				}
				return errors.Join(c.Wait(ctx), c.Close())
			}()
		}()
		dial := func(name string) (*Conn, error) {
			p := (&Options{}).param()
			p.PrivateData = []byte(name)
			return Dial(ctx, l.Addr().String(), &Options{Kind: o.Kind, Param: p})
		}
		var rejected *RejectedError
		if _, err := dial("Eve01"); !errors.As(err, &rejected) || string(rejected.PrivateData[:14]) != "not you, Eve01" ||
			rejected.Peer != l.Addr() {
			t.Errorf("%v, %+v", err, rejected)
		}
		c, err := dial("Alice1")
		check(t, err)
		if string(c.PrivateData[:15]) != "welcome, Alice1" {
			t.Errorf("%q", c.PrivateData)
		}
		check(t, c.Close())
		check(t, <-served)
		check(t, l.Close())
		if _, err := dial("nobody"); !errors.As(err, &rejected) || rejected.Peer != l.Addr() {
			t.Errorf("after Close: %v", err)
		} else if want := "nobody listens at " + l.Addr().String(); rejected.Error() != want {
			t.Errorf("%q, want %q", rejected, want)
		}
	})
}
