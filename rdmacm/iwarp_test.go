// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/cm/iwcm"
	wire "verbena/internal/wire/iwarp"
	"verbena/verbs"
)

// requested waits for a request and gives it a queue pair.
func (f *fabric) requested(l *testID) (*equipped, *Event) {
	f.t.Helper()
	ev := l.want(ConnectRequest)
	ch := NewEventChannel()
	check(f.t, ev.ID.Migrate(ch))
	return f.own(ev.ID, ch).equip(ib.QPTypeRC), ev
}

// establish connects client to a listener, and returns the other end.
func (f *fabric) establish(client *equipped, l *testID) (server *equipped) {
	f.t.Helper()
	check(f.t, client.Connect(&someParam))
	server, _ = f.requested(l)
	check(f.t, server.Accept(&someParam))
	client.want(Established)
	server.want(Established)
	return server
}

// counted returns one of the counters of a process's iWARP connections.
func (m *manager) counted(n iwcm.Counter) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.iw.count[n]
}

func (m *manager) faults(f iwcm.Fault) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.iw.count.Fault(f)
}

// The TCP port is the kernel's: nobody else's listener has it, RDMA or not.
func TestIWARPListenerHasTheTCPPort(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	if err := a.idOf(IWARP).BindAddr(netip.MustParseAddrPort(taken.Addr().String())); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("bound to a port that a TCP listener has: %v", err)
	}
	l := a.listeningOf(IWARP, loopback4, 0)
	at := l.LocalAddr()
	if c, err := net.Listen("tcp", at.String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a TCP listener has the port as well: %v, %v", c, err)
	}
	if err := b.idOf(IWARP).BindAddr(at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another process bound to the port: %v", err)
	}
	roce := b.newID(TCP) // it has a port space of its own
	check(t, roce.BindAddr(at))
	check(t, roce.Listen(0))
	check(t, l.Destroy())
	c, err := net.Listen("tcp", at.String())
	check(t, err)
	check(t, c.Close())
}

// CRCs are asked for unless the application says otherwise, and used if one of
// the two asks.
func TestIWARPCRCIsWhatEitherWants(t *testing.T) {
	for _, c := range []struct{ client, server bool }{{true, false}, {false, true}, {false, false}} {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.idOf(IWARP)
		l.SetCRC(c.server)
		check(t, l.BindAddr(anyPort))
		check(t, l.Listen(1))
		client := a.resolvedOf(IWARP, l.LocalAddr())
		client.SetCRC(c.client)
		server := f.establish(client, l)
		for _, end := range []*equipped{client, server} {
			end.mgr.mu.Lock()
			s, _ := end.proto.(*iwConnector).stream.conn.HandOver()
			end.mgr.mu.Unlock()
			if s.CRC != (c.client || c.server) {
				t.Errorf("%+v: CRCs %v", c, s.CRC)
			}
		}
		exchange(client, server)
	}
}

// A peer that speaks the first RFC only, by hand.
func TestIWARPPeerOfRevision1(t *testing.T) {
	a := newFabric(t).process(1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	client := a.resolvedOf(IWARP, netip.MustParseAddrPort(l.Addr().String()))
	check(t, client.Connect(&someParam))
	for _, want := range []uint8{2, 1} {
		c, err := l.Accept()
		check(t, err)
		defer c.Close()
		f := readFrame(t, c)
		if f.Reply || f.Revision != want || !f.CRC {
			t.Fatalf("asked with %+v", f)
		}
		_, err = c.Write(wire.MPAFrame{Reply: true, Revision: 1, CRC: true, Reject: want == 2, PrivateData: []byte("yes")}.Append(nil))
		check(t, err)
	}
	if ev := client.want(Established); string(ev.PrivateData) != "yes" {
		t.Errorf("established with %q", ev.PrivateData)
	}
}

// A peer by hand that offers one kind of ready-to-receive message: the Reply takes
// it, and the message establishes the connection.
func TestIWARPTakesEveryReadyToReceive(t *testing.T) {
	tagged := wire.Header{Control: wire.NewControl(wire.RDMAWrite, true), STag: 1}.Append(nil)
	read := wire.Header{Control: wire.NewControl(wire.ReadRequest, true), QN: wire.QNRequest, MSN: 1}.Append(nil)
	for _, c := range []struct {
		offer   wire.Enhanced
		message []byte
	}{
		{wire.Enhanced{EmptyFPDU: true}, nil},
		{wire.Enhanced{WriteRTR: true}, tagged},
		{wire.Enhanced{ReadRTR: true}, wire.ReadReq{SinkSTag: 1, SrcSTag: 1}.Append(read)},
	} {
		f := newFabric(t)
		l := f.process(1).listeningOf(IWARP, loopback4, 0)
		peer, err := net.Dial("tcp", l.LocalAddr().String())
		check(t, err)
		defer peer.Close()
		c.offer.PeerToPeer, c.offer.IRD, c.offer.ORD = true, 1, 1
		_, err = peer.Write(wire.MPAFrame{CRC: true, Revision: 2, IsEnhanced: true, Enhanced: c.offer}.Append(nil))
		check(t, err)
		server, _ := f.requested(l)
		check(t, server.Accept(&ConnParam{ResponderResources: 1, InitiatorDepth: 1}))
		if got := readFrame(t, peer).Enhanced; got != c.offer {
			t.Errorf("offered %+v, answered %+v", c.offer, got)
			continue
		}
		if ev := server.ch.TryGet(); ev != nil {
			t.Errorf("%v before the peer has spoken", ev.Type)
		}
		_, err = peer.Write(wire.AppendFPDU(nil, c.message, true))
		check(t, err)
		server.want(Established)
	}
}

// The connecting side offers one kind: others may pick none of several.
func TestIWARPOffersOneReadyToReceive(t *testing.T) {
	for depth, want := range map[uint8]wire.Enhanced{0: {WriteRTR: true}, 3: {ReadRTR: true}} {
		a := newFabric(t).process(1)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		defer l.Close()
		client := a.resolvedOf(IWARP, netip.MustParseAddrPort(l.Addr().String()))
		check(t, client.Connect(&ConnParam{ResponderResources: 2, InitiatorDepth: depth}))
		peer, err := l.Accept()
		check(t, err)
		defer peer.Close()
		want.PeerToPeer, want.IRD, want.ORD = true, 2, uint16(depth)
		if got := readFrame(t, peer).Enhanced; got != want {
			t.Errorf("of a depth of %d offers %+v, want %+v", depth, got, want)
		}
	}
}

func readFrame(t *testing.T, c net.Conn) wire.MPAFrame {
	t.Helper()
	check(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	var got []byte
	for {
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, b...)
		if f, _, ok := wire.ParseMPAFrame(got); ok {
			return f
		}
	}
}

// Faults that only streams can have are no hindrance to the manager, which serves
// all kinds, and are done.
func TestIWARPStreamsAreCut(t *testing.T) {
	open := func(faults string) (c *verbs.Context) {
		until(t, "the managers of before have ended", func() (ok bool) {
			var err error
			c, err = verbs.Open("iwarp_lo", verbs.WithFaults(faults))
			if err != nil && !errors.Is(err, syscall.EBUSY) {
				t.Fatal(err)
			}
			return err == nil
		})
		return c
	}
	first := open("cut=100%")
	defer func() {
		first.Close()
		// The tests that follow have whole streams. Other faults than the first are refused until
		// all managers with those have ended; none would be taken.
		open("cut=0%").Close()
	}()
	l, err := ListenAddr("127.0.0.1:0", &Options{Kind: IWARP})
	check(t, err)
	defer l.Close()
	if _, err := Dial(t.Context(), l.Addr().String(), &Options{Kind: IWARP}); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a stream that is reset at once: %v", err)
	}
	if _, err := Dial(t.Context(), l.Addr().String(), nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("cuts of datagrams: %v", err)
	}
}

// A queue pair is destroyed after Accept, before the application learns that the connection is
// established: it learns that, and that the connection has ended. (Disconnect panicked.)
func TestIWARPDestroyBeforeEstablished(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listeningOf(IWARP, loopback4, 0)
	client := a.resolvedOf(IWARP, l.LocalAddr())
	check(t, client.Connect(&someParam))
	server, _ := f.requested(l)
	check(t, server.DestroyQP())
	c := server.proto.(*iwConnector)
	c.dispatch(c.stream, iwcm.Event{Kind: iwcm.EventEstablished})
	check(t, server.Disconnect())
	server.want(Established)
	server.want(Disconnected)
}

// Destroying a queue pair ends the connection.
func TestIWARPDestroyEndsAConnection(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listeningOf(IWARP, loopback4, 0)
	client := a.resolvedOf(IWARP, l.LocalAddr())
	server := f.establish(client, l)
	check(t, client.DestroyQP())
	server.want(Disconnected)
	_, err := server.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled})
	check(t, err)
	for wc := server.completion(); ; wc = server.completion() { // the receive first
		if wc.Status != ib.WCWRFlushErr {
			t.Errorf("completed with %v", wc.Status)
		}
		if wc.Opcode == ib.WCSend {
			break
		}
	}
	check(t, client.Destroy())
}
