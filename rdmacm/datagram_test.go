// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"bytes"
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"verbena/ib"
)

// Datagrams have a port space, and are one of the types that IB's has.
var datagramSpaces = map[string]PortSpace{"UDP": UDP, "IB": IB}

func TestDatagramServiceIsResolved(t *testing.T) {
	for name, ps := range datagramSpaces {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t)
			a, b := f.process(1), f.process(2)
			l := b.listening(ps, loopback4)
			client := a.resolved(ps, l.LocalAddr()).equip(ib.QPTypeUD)
			check(t, client.Connect(&ConnParam{PrivateData: []byte("who")}))
			ev := l.want(ConnectRequest)
			if !bytes.HasPrefix(ev.PrivateData, []byte("who\x00")) || ev.ID.PeerAddr() != client.LocalAddr() {
				t.Errorf("request %q from %v", ev.PrivateData, ev.ID.PeerAddr())
			}
			server := f.own(ev.ID, l.ch).equip(ib.QPTypeUD)
			check(t, server.Accept(&ConnParam{PrivateData: []byte("me")}))
			up := client.want(Established)
			if up.UD.QPN != server.QP().QPN() || up.UD.QKey != UDQKey || !bytes.HasPrefix(up.UD.PrivateData, []byte("me\x00")) {
				t.Errorf("established with %+v", up.UD)
			}
			client.sendTo(&up.UD, "datagram")
			wc := server.received()
			if string(server.buf[2048+40:][:8]) != "datagram" || wc.SrcQP != client.QP().QPN() {
				t.Errorf("received %+v", wc)
			}
			if err := client.Disconnect(); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("Disconnect: %v", err)
			}
		})
	}
}

func TestDatagramServiceIsRefused(t *testing.T) {
	for name, ps := range datagramSpaces {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t)
			a, b := f.process(1), f.process(2)
			l := b.listening(ps, loopback4)
			client := a.resolved(ps, l.LocalAddr())
			check(t, client.Connect(&ConnParam{QPType: ib.QPTypeUD}))
			ev := l.want(ConnectRequest)
			check(t, ev.ID.Reject([]byte("no")))
			check(t, ev.ID.Destroy())
			if got := client.want(Unreachable); !errors.Is(got.Err, syscall.ECONNREFUSED) || !bytes.HasPrefix(got.PrivateData, []byte("no\x00")) {
				t.Errorf("refused with %v, %q", got.Err, got.PrivateData)
			}
			other := a.resolved(ps, netip.AddrPortFrom(loopback4, 9))
			check(t, other.SetQPType(ib.QPTypeUD))
			check(t, other.Connect(&ConnParam{}))
			if got := other.want(Unreachable); got.Err.Error() != "nobody listens at 127.0.0.1:9" {
				t.Errorf("nobody listens: %v", got.Err)
			}
		})
	}
}

// A listener of the IB port space that is for one type of queue pairs refuses
// requests for others; TCP's and UDP's are for theirs in any case.
func TestListenerOfOneType(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	for _, typ := range []ib.QPType{ib.QPTypeRC, ib.QPTypeUC, ib.QPTypeUD, ib.QPTypeXRCRecv} {
		l := b.newID(IB)
		check(t, l.SetQPType(typ))
		check(t, l.BindAddr(anyPort))
		check(t, l.Listen(0))
		for _, asks := range []ib.QPType{ib.QPTypeRC, ib.QPTypeUC, ib.QPTypeUD, ib.QPTypeXRCSend} {
			client := a.resolved(IB, l.LocalAddr())
			p := someParam
			p.QPN, p.QPType = 0x77, asks
			check(t, client.Connect(&p))
			want := Rejected
			if asks == ib.QPTypeUD {
				want = Unreachable
			}
			if asks == typ || asks == ib.QPTypeXRCSend && typ == ib.QPTypeXRCRecv {
				id := l.want(ConnectRequest).ID
				other := ib.QPTypeUD
				if typ == ib.QPTypeUD {
					other = ib.QPTypeRC
				}
				if err := id.SetQPType(other); !errors.Is(err, syscall.EINVAL) {
					t.Errorf("a request for %v became one for %v: %v", asks, other, err)
				}
				check(t, id.Destroy())
				client.want(want)
				continue
			}
			var re *RejectedError
			if ev := client.want(want); want == Rejected && (!errors.As(ev.Err, &re) || re.Reason != RejectTransport) {
				t.Errorf("%v at a listener for %v: %v", asks, typ, ev.Err)
			}
		}
		if ev := l.ch.TryGet(); ev != nil {
			t.Errorf("the listener for %v has one request more", typ)
		}
		if err := l.SetQPType(ib.QPTypeRC); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("SetQPType while listening: %v", err)
		}
	}
	for ps, typ := range map[PortSpace]ib.QPType{TCP: ib.QPTypeUD, UDP: ib.QPTypeRC} {
		if err := a.newID(ps).SetQPType(typ); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v for %v: %v", ps, typ, err)
		}
	}
}

// Multicast goes with datagrams in the IB port space as well.
func TestMulticastInTheIBPortSpace(t *testing.T) {
	p := newFabric(t).process(1)
	id := p.newID(IB)
	check(t, id.BindAddr(anyPort))
	if err := id.JoinMulticast(groupAddr, FullMember); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("before it is for datagrams: %v", err)
	}
	e := id.equip(ib.QPTypeUD)
	check(t, e.JoinMulticast(groupAddr, FullMember))
	joined := e.want(MulticastJoin)
	e.sendTo(&joined.UD, "to all")
	if wc := e.received(); wc.SrcQP != e.QP().QPN() {
		t.Errorf("received %+v", wc)
	}
	check(t, e.LeaveMulticast(groupAddr))
}
