// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"verbena/internal/cm/iwcm"
	wire "verbena/internal/wire/iwarp"
)

// ended waits for the other end to close or reset a stream.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	check(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	if n, err := io.Copy(io.Discard, c); n != 0 || errors.Is(err, syscall.ETIMEDOUT) || isTimeout(err) {
		t.Fatalf("%d bytes, %v, want the end of the stream", n, err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func tcpDial(t *testing.T, to netip.AddrPort) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// serves proves that a listener is well: somebody connects.
func (f *fabric) serves(l *testID, from *process) {
	f.t.Helper()
	client := from.resolvedOf(IWARP, l.LocalAddr())
	f.establish(client, l)
}

func TestIWARPGarbageOnTheListeningPort(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listeningOf(IWARP, loopback4, 0)
	for i, garbage := range [][]byte{
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		make([]byte, 4000),
		wire.MPAFrame{Reply: true, Revision: 2}.Append(nil),
		wire.MPAFrame{Revision: 9}.Append(nil),
		append(wire.MPAFrame{Revision: 1}.Append(nil), 1, 2, 3),
	} {
		c := tcpDial(t, l.LocalAddr())
		_, err := c.Write(garbage)
		check(t, err)
		ended(t, c)
		until(t, "the fault is counted", func() bool {
			return b.faults(iwcm.FaultProtocol)+b.faults(iwcm.FaultRevision) == uint64(i+1)
		})
	}
	f.serves(l, a)
	if n := b.counted(iwcm.Taken); n != 6 {
		t.Errorf("%d streams were taken", n)
	}
}

// Peers that connect and send nothing, or half a message, keep nobody out, and are gone with the
// listener.
func TestIWARPHalfOpenPeers(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listeningOf(IWARP, loopback4, 0)
	request := wire.MPAFrame{Revision: 1}.Append(nil)
	var all []net.Conn
	for i := range 300 {
		c := tcpDial(t, l.LocalAddr())
		_, err := c.Write(request[:i%len(request)])
		check(t, err)
		all = append(all, c)
	}
	f.serves(l, a)
	until(t, "the oldest give way", func() bool { return b.faults(iwcm.FaultCrowded) >= 44 })
	all[299].Close()
	until(t, "one that has gone is noticed", func() bool { return b.faults(iwcm.FaultReset) >= 1 })
	check(t, l.Destroy())
	for _, c := range all[:299] {
		ended(t, c)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.iw.streams); n > 1 {
		t.Errorf("%d streams are left", n)
	}
}

func TestIWARPSlowPeer(t *testing.T) {
	f := newFabric(t)
	b := f.process(2)
	l := b.listeningOf(IWARP, loopback4, 0)
	c := tcpDial(t, l.LocalAddr())
	request := wire.MPAFrame{Revision: 1, PrivateData: []byte("slow")}.Append(nil)
	for i := range request {
		_, err := c.Write(request[i : i+1])
		check(t, err)
	}
	ev := l.want(ConnectRequest)
	if string(ev.PrivateData) != "slow" || ev.Conn.InitiatorDepth != deviceRdAtomic {
		t.Errorf("requested with %q, %+v", ev.PrivateData, ev.Conn)
	}
	check(t, ev.ID.Reject([]byte("bye")))
	if r := readFrame(t, c); !r.Reply || !r.Reject || string(r.PrivateData) != "bye" {
		t.Errorf("answered with %+v", r)
	}
	ended(t, c)
	check(t, ev.ID.Destroy())
}

// Requests beyond the backlog wait, in order.
func TestIWARPBacklog(t *testing.T) {
	f := newFabric(t)
	b := f.process(2)
	l := b.listeningOf(IWARP, loopback4, 2)
	for i := range 5 {
		_, err := tcpDial(t, l.LocalAddr()).Write(wire.MPAFrame{Revision: 1, PrivateData: []byte{byte(i)}}.Append(nil))
		check(t, err)
		until(t, "the request has come", func() bool { return b.counted(iwcm.Requests) == uint64(i+1) })
	}
	first, second := l.want(ConnectRequest), l.want(ConnectRequest)
	if ev := l.ch.TryGet(); ev != nil {
		t.Errorf("a third one is there: %v", ev.PrivateData)
	}
	check(t, second.ID.Destroy())
	third := l.want(ConnectRequest)
	if first.PrivateData[0] != 0 || second.PrivateData[0] != 1 || third.PrivateData[0] != 2 {
		t.Errorf("requests %v %v %v", first.PrivateData, second.PrivateData, third.PrivateData)
	}
	check(t, l.Destroy()) // refuses the rest, but those the application has
	check(t, first.ID.Destroy())
	check(t, third.ID.Destroy())
}

func TestIWARPPeerGivesUpBeforeAccept(t *testing.T) {
	f := newFabric(t)
	b := f.process(2)
	l := b.listeningOf(IWARP, loopback4, 0)
	c := tcpDial(t, l.LocalAddr())
	_, err := c.Write(wire.MPAFrame{Revision: 1}.Append(nil))
	check(t, err)
	server, _ := f.requested(l)
	check(t, c.Close())
	until(t, "its end is noticed", func() bool { return b.faults(iwcm.FaultReset) == 1 })
	if err := server.Accept(&someParam); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("accepted: %v", err)
	}
	if err := server.Reject(nil); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("rejected: %v", err)
	}
}

// A connection to a peer that is no RDMA host ends with an error.
func TestIWARPPeerIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(net.Conn)
		typ   EventType
		err   error
	}{
		"closes":        {func(c net.Conn) { c.Close() }, Rejected, syscall.ECONNRESET},
		"resets":        {func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() }, Rejected, syscall.ECONNRESET},
		"talks":         {func(c net.Conn) { c.Write([]byte("220 mail.example.org ESMTP\r\n")) }, ConnectError, syscall.EPROTO},
		"asks for more": {func(c net.Conn) { c.Write(greedy.Append(nil)) }, ConnectError, syscall.EPROTO},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			check(t, err)
			defer l.Close()
			client := newFabric(t).process(1).resolvedOf(IWARP, netip.MustParseAddrPort(l.Addr().String()))
			check(t, client.Connect(&someParam))
			peer, err := l.Accept()
			check(t, err)
			defer peer.Close()
			readFrame(t, peer)
			c.serve(peer)
			if ev := client.want(c.typ); !errors.Is(ev.Err, c.err) {
				t.Errorf("%v", ev.Err)
			}
		})
	}
}

var greedy = wire.MPAFrame{Reply: true, Revision: 2, IsEnhanced: true, Enhanced: wire.Enhanced{IRD: 1, ORD: 100, PeerToPeer: true, WriteRTR: true}}

// A peer that accepts and ends at once, as a process does that exits with its first
// event, has been connected.
func TestIWARPPeerAcceptsAndEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	a := newFabric(t).process(1)
	reply := wire.MPAFrame{Reply: true, Revision: 2, IsEnhanced: true, Enhanced: wire.Enhanced{IRD: 1, ORD: 1, PeerToPeer: true, ReadRTR: true}}
	for range 100 {
		client := a.resolvedOf(IWARP, netip.MustParseAddrPort(l.Addr().String()))
		check(t, client.Connect(&someParam))
		peer, err := l.Accept()
		check(t, err)
		readFrame(t, peer)
		_, err = peer.Write(reply.Append(nil))
		check(t, err)
		_, err = peer.Read(make([]byte, 1)) // the client is ready to receive
		check(t, err)
		check(t, peer.Close())
		client.want(Established)
		client.want(Disconnected)
		check(t, client.DestroyQP())
		check(t, client.Destroy())
	}
}

func TestIWARPNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	dst := netip.MustParseAddrPort(l.Addr().String())
	check(t, l.Close())
	client := newFabric(t).process(1).resolvedOf(IWARP, dst)
	check(t, client.Connect(&someParam))
	var re *RejectedError
	if ev := client.want(Rejected); !errors.As(ev.Err, &re) || re.Reason != RejectNoListener {
		t.Errorf("rejected with %v", ev.Err)
	}
}

// Giving up a connection that is on its way takes the stream with it.
func TestIWARPDestroyWhileConnecting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	a := newFabric(t).process(1)
	client := a.resolvedOf(IWARP, netip.MustParseAddrPort(l.Addr().String()))
	check(t, client.Connect(&someParam))
	peer, err := l.Accept()
	check(t, err)
	defer peer.Close()
	readFrame(t, peer)
	check(t, client.DestroyQP())
	check(t, client.Destroy())
	ended(t, peer)
}
