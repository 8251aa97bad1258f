// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/roce"
	"verbena/internal/roce/ud"
	"verbena/internal/sys/shmring"
	"verbena/internal/testkit/rig"
	wire "verbena/internal/wire/roce"
)

const testQKey = 0x1234

// The buffer of a datagram endpoint: a message, and from receiveAt on a place for each receive, in
// turn.
const (
	receiveAt    = 1024
	receiveBytes = ud.GRHBytes + 1024
	receives     = 64
)

// datagrams is a UD queue pair.
type datagrams struct {
	*endpoint
	next int // place of the next receive
}

// newDatagrams makes a UD queue pair that is ready to send.
func newDatagrams(n *node) *datagrams {
	n.T.Helper()
	var at netip.AddrPort
	e := as(n, receiveAt+receives*receiveBytes, func(_ *endpoint, c roce.Config) roce.Machine {
		return ud.New(ud.Config{Config: c, MTU: 1024,
			Source: func(uint8) netip.AddrPort { return at }})
	})
	port, err := connOf(e).Bind(n.Addr)
	if err != nil {
		n.T.Fatal(err)
	}
	at = netip.AddrPortFrom(n.Addr, port)
	for _, s := range []struct {
		state ib.QPState
		mask  ib.QPAttrMask
	}{{ib.QPInit, ib.QPQKey}, {ib.QPRTR, 0}, {ib.QPRTS, ib.QPSQPSN}} {
		if err := e.ModifyTo(&ib.QPAttr{State: s.state, QKey: testQKey}, s.mask); err != nil {
			n.T.Fatal(err)
		}
	}
	n.T.Cleanup(e.CloseOnce)
	return &datagrams{endpoint: e}
}

// expect posts a receive.
func (d *datagrams) expect() {
	d.Lock()
	w, _ := d.RQ.Reserve()
	w.Length = receiveBytes
	w.SGE = append(w.SGE, ib.SGE{Addr: uint64(receiveAt + d.next*receiveBytes),
		Length: w.Length, LKey: d.Region.LKey()})
	d.RQ.Commit()
	d.SubmitReceivesUnlock()
	d.next = (d.next + 1) % receives
}

// post posts datagrams of n bytes that begin with a number, one to each destination, as one list.
func (d *datagrams) post(mark uint64, n int, to ...remote) {
	d.Node.T.Helper()
	d.Lock()
	binary.NativeEndian.PutUint64(d.Buf, mark)
	for _, r := range to {
		w, ok := d.SQ.Reserve()
		if !ok {
			d.Node.T.Fatal("the send queue is full")
		}
		w.Opcode, w.Flags, w.Length = ib.WRSend, ib.SendSignaled, uint32(n)
		w.Dst, w.RemoteQPN, w.QKey = r.Addr, r.QPN, testQKey
		w.SGE = append(w.SGE, ib.SGE{Length: uint32(n), LKey: d.Region.LKey()})
		d.SQ.Commit()
	}
	d.SubmitUnlock(1)
}

// send sends one datagram and waits until it is sent.
func (d *datagrams) send(mark uint64, n int, to remote) {
	d.Node.T.Helper()
	d.post(mark, n, to)
	d.Want(ib.WCSend, ib.WCSuccess)
}

// self tells how to reach the queue pair.
func (d *datagrams) self() remote { return remote{Addr: d.Node.Addr, QPN: d.QPN()} }

// last returns the bytes of the receive posted last, with the GRH.
func (d *datagrams) last(n int) []byte {
	d.Lock()
	defer d.Unlock()
	at := receiveAt + (d.next+receives-1)%receives*receiveBytes
	return bytes.Clone(d.Buf[at : at+ud.GRHBytes+n])
}

// neighbours starts engines that share the port at one address, as processes of one user do.
func neighbours(t testing.TB, options ...how) []*node {
	t.Helper()
	all := meet(t, options[0])
	for _, o := range options[1:] {
		o.Dir = all[0].Dir
		all = append(all, startNodeAt(t, policy.Nap, o, all[0].Addr))
	}
	return all
}

// ringed sends datagrams from one queue pair to another until one goes by a ring, and returns how
// many it sent. The receiver has none of them left.
func ringed(t testing.TB, from, to *datagrams) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("rings need memfds, which only Linux has")
	}
	rig.Until(t, "a datagram goes by a ring", func() bool {
		before := from.Node.Counter("local_sent_pkts")
		to.expect()
		from.send(0, 8, to.self())
		to.Want(ib.WCRecv, ib.WCSuccess)
		return from.Node.Counter("local_sent_pkts") > before
	})
}

// A datagram comes by a ring as it does by a socket: the same bytes, the same GRH, the same
// completion.
func TestDatagramByRing(t *testing.T) {
	var want []byte
	var wantWC ib.WC
	for _, o := range []how{{NoLocal: true}, {}} {
		nodes := neighbours(t, o, o)
		a, b := newDatagrams(nodes[0]), newDatagrams(nodes[1])
		if !o.NoLocal {
			ringed(t, a, b)
		}
		local := nodes[0].Counter("local_sent_pkts")
		for i := range a.Buf[:1024] {
			a.Buf[i] = byte(i)
		}
		var got []byte
		var wc ib.WC
		for _, n := range []int{0, 9, 1024} {
			b.expect()
			a.send(7, n, b.self())
			wc = b.Want(ib.WCRecv, ib.WCSuccess)
			if wc.ByteLen != uint32(ud.GRHBytes+n) || wc.SrcQP != a.QPN() {
				t.Errorf("%d bytes: %+v", n, wc)
			}
			one := b.last(n)
			addr := nodes[0].Addr.As4() // differs in each round
			if !bytes.Equal(one[32:36], addr[:]) || !bytes.Equal(one[36:40], addr[:]) {
				t.Errorf("the GRH has the addresses % x", one[32:40])
			}
			clear(one[30:40]) // the checksum, too
			got = append(got, one...)
		}
		wc.SrcQP, wc.QPN = 0, 0
		if o.NoLocal {
			want, wantWC = got, wc
			continue
		}
		if !bytes.Equal(got, want) || wc != wantWC {
			t.Errorf("by a ring % x\n%+v, by a socket % x\n%+v", got, wc, want, wantWC)
		}
		if n := nodes[0].Counter("local_sent_pkts") - local; n != 3 {
			t.Errorf("%d datagrams went by the ring, want 3", n)
		}
	}
}

// A list of datagrams to queue pairs of this process, of others of the host and of none comes to
// each receiver complete.
func TestDatagramsToManyWays(t *testing.T) {
	nodes := neighbours(t, how{}, how{}, how{}, how{NoLocal: true})
	from := newDatagrams(nodes[0])
	var to []*datagrams
	for i, n := range nodes {
		to = append(to, newDatagrams(n), newDatagrams(n))
		if i < 3 {
			ringed(t, from, to[2*i])
			ringed(t, from, to[2*i+1])
		}
	}
	closed := newDatagrams(nodes[1]) // a number near another one may belong to the next process
	nobody := closed.self()
	closed.Close()
	local := nodes[0].Counter("local_sent_pkts")
	const rounds = 50
	for round := range uint64(rounds) {
		var list []remote
		for i, d := range to {
			d.expect()
			if list = append(list, d.self()); i == 3 {
				list = append(list, nobody)
			}
		}
		from.post(round, 64, list...)
		for range list {
			from.Want(ib.WCSend, ib.WCSuccess)
		}
		for _, d := range to {
			wc := d.Want(ib.WCRecv, ib.WCSuccess)
			if got := binary.NativeEndian.Uint64(d.last(8)[ud.GRHBytes:]); got != round || wc.SrcQP != from.QPN() {
				t.Fatalf("round %d: datagram %d from %v", round, got, wc.SrcQP)
			}
		}
	}
	if n := nodes[0].Counter("local_sent_pkts") - local; n != 7*rounds {
		t.Errorf("%d datagrams went by rings, want %d", n, 7*rounds)
	}
	defer func() {
		if t.Failed() {
			t.Logf("unknown_qp is %d", nodes[1].Counter("unknown_qp"))
		}
	}()
	rig.Until(t, "the datagrams for nobody are counted", func() bool {
		return nodes[1].Counter("unknown_qp") == rounds
	})
}

// A datagram that a socket's receiver would drop is dropped in a ring too, and counted alike. The
// receive stays posted for the next.
func TestDatagramInRingIsDropped(t *testing.T) {
	nodes := neighbours(t, how{}, how{})
	a, b := newDatagrams(nodes[0]), newDatagrams(nodes[1])
	ringed(t, a, b)
	counted := func(name string) {
		t.Helper()
		rig.Until(t, name+" is raised", func() bool { return nodes[1].Counter(name) == 1 })
	}
	a.send(1, 8, b.self())
	counted("dropped_no_recv")
	b.Lock()
	connOf(b.endpoint).packets.Modify(0, &ib.QPAttr{QKey: testQKey + 1}, ib.QPQKey, nil)
	b.Unlock()
	b.expect()
	a.send(2, 8, b.self())
	counted("bad_qkey")
	b.Lock()
	connOf(b.endpoint).packets.Modify(0, &ib.QPAttr{QKey: testQKey}, ib.QPQKey, nil)
	b.Unlock()
	a.send(3, 8, b.self())
	b.Want(ib.WCRecv, ib.WCSuccess)
	if got := binary.NativeEndian.Uint64(b.last(8)[ud.GRHBytes:]); got != 3 {
		t.Errorf("datagram %d was delivered, want 3", got)
	}
}

// Datagrams to QP1, to a group and to an address that this process does not have leave by sockets.
func TestDatagramsThatTakeSockets(t *testing.T) {
	nodes := neighbours(t, how{}, how{})
	a, b := newDatagrams(nodes[0]), newDatagrams(nodes[1])
	ringed(t, a, b)
	local := nodes[0].Counter("local_sent_pkts")
	for _, to := range []remote{
		{Addr: nodes[1].Addr, QPN: ib.QP1},
		{Addr: netip.MustParseAddr("239.1.2.3"), QPN: ib.QPMulticast},
		{Addr: rig.NewAddr(), QPN: b.QPN()},
	} {
		a.send(1, 8, to)
	}
	if n := nodes[0].Counter("local_sent_pkts") - local; n != 0 {
		t.Errorf("%d of them went by a ring", n)
	}
}

// A process that writes anything into its ring reaches no connected queue pair, and no address
// where nobody receives. None of its datagrams seems to come from another process.
func TestHostileDatagrams(t *testing.T) {
	nodes := neighbours(t, how{}, how{}, how{})
	hostile, b, third := newDatagrams(nodes[0]), newDatagrams(nodes[1]), newDatagrams(nodes[2])
	ringed(t, hostile, b)
	rc := newEndpoint(nodes[1], 64)
	connectAt(rc, 9, nodes[0].Addr, 14, 7)
	t.Cleanup(rc.Close)
	o := connOf(hostile.endpoint).ring
	here := nodes[0].Addr
	datagram := func(to, from ib.QPN) []byte {
		h := header(wire.UDSendOnly, to)
		h = wire.DETH{QKey: testQKey, SrcQP: from}.Append(h)
		return append(h, make([]byte, 8+4)...) // and the ICRC
	}
	entry := func(src, dst netip.Addr, packet []byte) []byte {
		b := make([]byte, shmring.PrefixBytes, shmring.PrefixBytes+len(packet))
		putAddresses(b, &roce.Path{Src: src, Dst: dst})
		return append(b, packet...)
	}
	own := datagram(b.QPN(), hostile.QPN())
	b.expect()
	refused := nodes[1].Counter("local_refused")
	for name, c := range map[string]struct {
		bytes    []byte
		prefixed bool
	}{
		"from a queue pair of another process":   {entry(here, here, datagram(b.QPN(), third.QPN())), true},
		"to a connected queue pair":              {entry(here, here, datagram(rc.QPN(), hostile.QPN())), true},
		"to an address that nobody receives at":  {entry(here, rig.NewAddr(), own), true},
		"to another family":                      {entry(netip.IPv6Loopback(), here, own), true},
		"from a group":                           {entry(netip.MustParseAddr("239.1.2.3"), here, own), true},
		"from no address":                        {entry(netip.IPv4Unspecified(), here, own), true},
		"without addresses":                      {own, false},
		"to a connected queue pair, without any": {datagram(rc.QPN(), hostile.QPN()), false},
	} {
		ringsOf(nodes[0]).WriteEntry(o, c.bytes, c.prefixed)
		refused++
		rig.Until(t, name+" is refused", func() bool { return nodes[1].Counter("local_refused") == refused })
	}
	ringsOf(nodes[0]).WriteEntry(o, entry(here, here, header(wire.RCSendOnly, b.QPN())), true)
	rig.Until(t, "a packet without its end is counted", func() bool {
		return nodes[1].Counter("malformed_too_short") == 1
	})
	ringsOf(nodes[0]).WriteEntry(o, entry(here, here, own), true)
	if wc := b.Want(ib.WCRecv, ib.WCSuccess); wc.SrcQP != hostile.QPN() {
		t.Errorf("%+v", wc)
	}
	// A prefix and no packet is no entry: the ring ends, and datagrams take sockets.
	ringsOf(nodes[0]).WriteEntry(o, make([]byte, shmring.PrefixBytes), true)
	rig.Until(t, "the ring is ended", func() bool { return !ringsOf(nodes[0]).Alive(o) })
	if n := nodes[1].Counter("local_corrupt"); n != 1 {
		t.Errorf("local_corrupt is %d", n)
	}
	local := nodes[0].Counter("local_sent_pkts")
	b.expect()
	hostile.send(5, 8, b.self())
	b.Want(ib.WCRecv, ib.WCSuccess)
	if nodes[0].Counter("local_sent_pkts") != local {
		t.Error("a datagram went by the ring that ended")
	}
}

// A process that does not read its ring delays datagrams to others once. After that those for it
// are lost, and the others come.
func TestDatagramRingIsFull(t *testing.T) {
	nodes := neighbours(t, how{}, how{}, how{})
	from, held, other := newDatagrams(nodes[0]), newDatagrams(nodes[1]), newDatagrams(nodes[2])
	ringed(t, from, held)
	ringed(t, from, other)
	release := ringsOf(nodes[1]).Hold()
	defer release()
	for i := uint64(0); nodes[0].Counter("local_lost") == 0; i++ {
		from.send(i, 1024, held.self())
	}
	lost := nodes[0].Counter("local_lost")
	for i := range uint64(100) {
		other.expect()
		from.post(i, 64, held.self(), other.self())
		other.Want(ib.WCRecv, ib.WCSuccess)
		for range 2 {
			from.Want(ib.WCSend, ib.WCSuccess)
		}
	}
	if n := nodes[0].Counter("local_lost") - lost; n != 100 {
		t.Errorf("%d datagrams to the process that does not read were lost, want 100", n)
	}
}

func TestDatagramsAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates: run without -race")
	}
	nodes := neighbours(t, how{}, how{})
	a, b := newDatagrams(nodes[0]), newDatagrams(nodes[1])
	ringed(t, a, b)
	to := b.self()
	rig.Until(t, "datagrams allocate nothing", func() bool { // the keeper of both may, now and then
		return testing.AllocsPerRun(200, func() {
			b.expect()
			a.post(1, 64, to)
			succeed(a.endpoint, b.endpoint, true)
			succeed(b.endpoint, a.endpoint, true)
		}) < 1
	})
}
