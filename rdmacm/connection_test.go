// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
	"verbena/verbs"
)

var someParam = ConnParam{ResponderResources: 3, InitiatorDepth: 2, RetryCount: 7, RNRRetryCount: 7}

// connected returns both ends of a connection between two processes.
func (f *fabric) connected(ps PortSpace, typ ib.QPType, addr netip.Addr) (client, server *equipped) {
	f.t.Helper()
	a, b := f.process(1), f.process(2)
	l := b.listening(ps, addr)
	client = a.resolved(ps, l.LocalAddr()).equip(typ)
	p := someParam
	p.PrivateData, p.ECE = []byte("hello"), ib.ECE{VendorID: 0xabcdef, Options: 0x11223344}
	check(f.t, client.Connect(&p))
	ev := l.want(ConnectRequest)
	if ev.ListenID != l.ID || ev.ID.PeerAddr() != client.LocalAddr() || ev.ID.LocalAddr() != l.LocalAddr() {
		f.t.Errorf("request on %v from %v to %v", ev.ListenID, ev.ID.PeerAddr(), ev.ID.LocalAddr())
	}
	if !bytes.HasPrefix(ev.PrivateData, []byte("hello\x00")) {
		f.t.Errorf("request with private data %q", ev.PrivateData)
	}
	if c := ev.Conn; c.ResponderResources != 2 || c.InitiatorDepth != 3 || c.RetryCount != 7 || c.RNRRetryCount != 7 || c.QPN != client.QP().QPN() || c.ECE != p.ECE {
		f.t.Errorf("request with %+v", c)
	}
	ch := NewEventChannel()
	check(f.t, ev.ID.Migrate(ch))
	server = f.own(ev.ID, ch).equip(typ)
	check(f.t, server.Accept(&ConnParam{ResponderResources: MaxRdAtomic, InitiatorDepth: MaxRdAtomic, RNRRetryCount: 6, ECE: ib.ECE{VendorID: 0xabcdef, Options: 5}, PrivateData: []byte("welcome")}))
	server.want(Established)
	up := client.want(Established)
	if !bytes.HasPrefix(up.PrivateData, []byte("welcome\x00")) || len(up.PrivateData) != cm.REPPrivateSize {
		f.t.Errorf("reply with private data %q", up.PrivateData)
	}
	if want := (ib.ECE{VendorID: 0xabcdef, Options: 5}); up.Conn.ECE != want {
		f.t.Errorf("reply with %+v, want %+v", up.Conn.ECE, want)
	}
	check(f.t, l.Destroy())
	return client, server
}

// exchange sends a message from one end to the other.
func exchange(from, to *equipped) {
	from.t.Helper()
	copy(from.buf, "a message")
	_, err := from.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ib.SGE{from.mr.SGE(0, 9)}})
	check(from.t, err)
	for _, e := range []*equipped{to, from} {
		wc := e.completion()
		check(e.t, wc.Err())
	}
	if got := to.buf[2048:][:9]; string(got) != "a message" {
		from.t.Errorf("received %q", got)
	}
}

func TestConnectionCarriesDataAndEnds(t *testing.T) {
	for name, c := range map[string]struct {
		ps   PortSpace
		typ  ib.QPType
		addr string
	}{
		"TCP":      {TCP, ib.QPTypeRC, "127.0.0.1"},
		"IB RC":    {IB, ib.QPTypeRC, "127.0.0.1"},
		"IB UC":    {IB, ib.QPTypeUC, "127.0.0.1"},
		"TCP IPv6": {TCP, ib.QPTypeRC, "::1"},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := newFabric(t).connected(c.ps, c.typ, netip.MustParseAddr(c.addr))
			exchange(client, server)
			exchange(server, client)
			a, _ := client.QP().Query()
			b, _ := server.QP().Query()
			if a.DestQPN != server.QP().QPN() || b.DestQPN != client.QP().QPN() || a.State != ib.QPRTS || b.State != ib.QPRTS || a.PathMTU != b.PathMTU {
				t.Errorf("the ends are\n%+v\n%+v", a, b)
			}
			if c.typ == ib.QPTypeRC && (a.MaxRdAtomic != 2 || a.MaxDestRdAtomic != 3 || b.MaxRdAtomic != 3 || b.MaxDestRdAtomic != 2 ||
				a.RNRRetry != 6 || b.RNRRetry != 7 || a.RetryCnt != 7 || b.RetryCnt != 7) {
				t.Errorf("the ends are\n%+v\n%+v", a, b)
			}
			check(t, client.Disconnect())
			server.want(Disconnected)
			check(t, server.Disconnect())
			client.want(Disconnected)
			if client.QP().State() != ib.QPErr || server.QP().State() != ib.QPErr {
				t.Errorf("queue pairs in %v and %v", client.QP().State(), server.QP().State())
			}
			check(t, client.Disconnect())
			client.want(TimewaitExit)
			server.want(TimewaitExit)
		})
	}
}

func TestRejectBringsReasonAndPrivateData(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listening(TCP, loopback4)
	client := a.resolved(TCP, l.LocalAddr()).equip(ib.QPTypeRC)
	check(t, client.Connect(&someParam))
	ev := l.want(ConnectRequest)
	check(t, ev.ID.Reject([]byte("no thanks")))
	check(t, ev.ID.Destroy())
	got := client.want(Rejected)
	var re *RejectedError
	if !errors.As(got.Err, &re) || re.Reason != RejectConsumer || !errors.Is(got.Err, syscall.ECONNREFUSED) || !bytes.HasPrefix(got.PrivateData, []byte("no thanks\x00")) {
		t.Errorf("rejected with %v, %q", got.Err, got.PrivateData)
	}
	if client.QP().State() != ib.QPErr {
		t.Errorf("queue pair in %v", client.QP().State())
	}
}

func TestNobodyListens(t *testing.T) {
	f := newFabric(t)
	client := f.process(1).resolved(TCP, netip.AddrPortFrom(loopback4, 9)).equip(ib.QPTypeRC)
	check(t, client.Connect(&someParam))
	var re *RejectedError
	if ev := client.want(Rejected); !errors.As(ev.Err, &re) || re.Reason != RejectNoListener {
		t.Errorf("rejected with %v", ev.Err)
	}
}

// The queue pairs are the application's own: it moves them with QPAttr and
// says Establish.
func TestApplicationDrivesItsOwnQueuePair(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listening(TCP, loopback4)
	client := a.resolved(TCP, l.LocalAddr())
	p := someParam
	if err := client.Connect(&p); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("without any queue pair: %v", err)
	}
	p.QPN = 0x77
	check(t, client.Connect(&p))
	server := f.own(l.want(ConnectRequest).ID, l.ch)
	before, mask, err := server.QPAttr(ib.QPRTR, ib.QPTypeRC) // before Accept, as librdmacm's users do
	check(t, err)
	if before.DestQPN != 0x77 || mask&(ib.QPRQPSN|ib.QPAV) != ib.QPRQPSN|ib.QPAV {
		t.Errorf("RTR before Accept with %+v", before)
	}
	check(t, server.Accept(&ConnParam{QPN: 0x88, ResponderResources: 1}))
	if ev := client.want(ConnectResponse); ev.Conn.QPN != 0x88 {
		t.Errorf("response with %+v", ev.Conn)
	}
	sends, _, err := client.QPAttr(ib.QPRTS, ib.QPTypeRC)
	check(t, err)
	if sends.SQPSN != before.RQPSN {
		t.Errorf("the client begins with PSN %v, the server expects %v", sends.SQPSN, before.RQPSN)
	}
	attr, mask, err := client.QPAttr(ib.QPRTR, ib.QPTypeRC)
	check(t, err)
	if attr.DestQPN != 0x88 || mask&ib.QPDestQPN == 0 || attr.AH.GRH.DGID != ib.GIDFromAddr(loopback4) {
		t.Errorf("RTR with %+v", attr)
	}
	if _, _, err := client.QPAttr(ib.QPErr, ib.QPTypeRC); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("ERR: %v", err)
	}
	check(t, client.Establish())
	server.want(Established)
	check(t, client.Disconnect())
	server.want(Disconnected)
}

// An XRC connection goes from an initiator to a target; the message names the
// shared receive queue.
func TestXRCConnection(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listening(TCP, loopback4)
	client := a.resolved(TCP, l.LocalAddr())
	dev := client.Verbs()
	pd, err := dev.AllocPD()
	check(t, err)
	defer pd.Dealloc()
	cq, err := dev.CreateCQ(8, nil)
	check(t, err)
	defer cq.Destroy()
	domain, err := dev.OpenXRCD(nil, os.O_CREATE)
	check(t, err)
	defer domain.Close()
	srq, err := pd.CreateXRCSRQ(ib.SRQAttr{MaxWR: 4, MaxSGE: 1}, domain, cq)
	check(t, err)
	defer srq.Destroy()
	_, err = srq.PostRecv(verbs.RecvWR{})
	check(t, err)

	check(t, client.CreateQP(pd, &verbs.QPInitAttr{Type: ib.QPTypeXRCSend, SendCQ: cq, Cap: ib.QPCap{MaxSendWR: 4, MaxSendSGE: 1}}))
	defer client.DestroyQP()
	check(t, client.Connect(&someParam))
	server := f.own(l.want(ConnectRequest).ID, l.ch)
	target, err := domain.CreateQP(nil)
	check(t, err)
	check(t, server.UseQP(target))
	defer server.DestroyQP()
	check(t, server.Accept(&ConnParam{ResponderResources: MaxRdAtomic}))
	client.want(Established)
	server.want(Established)
	if attr, _ := client.QP().Query(); attr.DestQPN != target.QPN() || attr.State != ib.QPRTS {
		t.Errorf("the initiator is %+v", attr)
	}
	_, err = client.QP().PostSend(verbs.SendWR{Opcode: ib.WRSendWithImm, ImmData: 7, RemoteSRQN: srq.Num()})
	check(t, err)
	e := equipped{testID: client, cq: cq}
	if wc := e.received(); wc.ImmData != 7 || wc.QPN != target.QPN() {
		t.Errorf("received %+v", wc)
	}
	check(t, client.Disconnect())
	server.want(Disconnected)
}

// A process is killed. Its peer learns at once, by the DREQ that it left.
func TestKilledPeerDisconnects(t *testing.T) {
	f := newFabric(t)
	client, server := f.connected(TCP, ib.QPTypeRC, loopback4)
	f.nodes[1].kill()
	server.want(Disconnected)
	check(t, server.Disconnect())
	server.want(TimewaitExit)
	// The rest of the client here does not know of its death; it ends as well.
	f.nodes[1] = nil
	check(t, client.DestroyQP())
	check(t, client.Destroy())
	client.mgr.forget()
}

// A process ends, as qperf's server does, when its peer disconnects, and without
// an answer. The peer gets it nevertheless: from the will.
func TestUnansweredPeerEnds(t *testing.T) {
	f := newFabric(t)
	client, server := f.connected(TCP, ib.QPTypeRC, loopback4)
	check(t, server.Disconnect())
	client.want(Disconnected)
	f.nodes[1].kill()
	server.want(Disconnected)
	server.want(TimewaitExit)
	f.nodes[1] = nil
	check(t, client.DestroyQP())
	check(t, client.Destroy())
	client.mgr.forget()
}

func TestListenerOnAllAddresses(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.newID(TCP)
	check(t, l.Listen(4)) // not bound: a port of its choice on all addresses
	port := l.LocalAddr().Port()
	if port < firstEphemeral || port > lastEphemeral {
		t.Fatalf("port %d", port)
	}
	for _, ip := range []string{"127.0.0.1", "::1"} {
		dst := netip.AddrPortFrom(netip.MustParseAddr(ip), port)
		client := a.resolved(TCP, dst).equip(ib.QPTypeRC)
		check(t, client.Connect(&someParam))
		ev := l.want(ConnectRequest)
		if ev.ID.LocalAddr() != dst || ev.ID.Verbs() == nil {
			t.Errorf("request at %v", ev.ID.LocalAddr())
		}
		check(t, ev.ID.Destroy())
		client.want(Rejected)
	}
}

// A process that passes MADs on dies with a REP that it has read. Those that it
// passed them to ask again at once, not after the response time-out of seconds.
func TestLostREPIsAskedForAtOnce(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listening(TCP, loopback4)
	client := a.resolved(TCP, l.LocalAddr()).equip(ib.QPTypeRC)
	lost := make(chan struct{})
	var once sync.Once
	f.mu.Lock()
	f.lose = func(mad []byte) (lose bool) {
		if h, _, _ := cm.ParseHeader(mad); h.Attribute == cm.AttrREP {
			once.Do(func() { lose = true; close(lost) })
		}
		return lose
	}
	f.mu.Unlock()
	check(t, client.Connect(&someParam))
	server := f.own(l.want(ConnectRequest).ID, l.ch).equip(ib.QPTypeRC)
	check(t, server.Accept(&ConnParam{}))
	<-lost
	before := time.Now()
	a.onLoss()
	client.want(Established)
	server.want(Established)
	if took := time.Since(before); took > 2*time.Second {
		t.Errorf("established after %v", took)
	}
}

// A REQ that comes while the listener still opens ports waits for it.
func TestListenerTakesRequestsWhileItOpensPorts(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.newID(TCP)
	check(t, l.BindAddr(netip.AddrPortFrom(netip.IPv6Unspecified(), 0)))
	port := l.LocalAddr().Port() // an application may tell its peer now
	client := a.resolved(TCP, netip.AddrPortFrom(loopback4, port)).equip(ib.QPTypeRC)

	opens, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.taken = func(netip.Addr) bool {
		once.Do(func() { close(opens) })
		<-open
		return false
	}
	listened := make(chan error, 1)
	go func() { listened <- l.Listen(1) }()
	<-opens
	check(t, client.Connect(&someParam))
	for b.connections() == 0 {
		if ev := client.ch.TryGet(); ev != nil {
			t.Errorf("%v (%v) while the server listens", ev.Type, ev.Err)
			break
		}
		time.Sleep(100 * time.Microsecond)
	}
	close(open)
	check(t, <-listened)
	if !t.Failed() {
		check(t, l.want(ConnectRequest).ID.Destroy())
		client.want(Rejected)
	}
}

// A REQ that comes between BindAddr and Listen waits, too: where the UDP port is
// open already, for another process or another connection, it arrives.
func TestBoundPortKeepsRequestsForItsListener(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.newID(TCP)
	check(t, l.BindAddr(anyPort))
	client := a.resolved(TCP, l.LocalAddr()).equip(ib.QPTypeRC)
	check(t, client.Connect(&someParam))
	for b.early() == 0 {
		if ev := client.ch.TryGet(); ev != nil {
			t.Fatalf("%v (%v) before the server listens", ev.Type, ev.Err)
		}
		time.Sleep(100 * time.Microsecond)
	}
	check(t, l.Listen(1))
	check(t, l.want(ConnectRequest).ID.Destroy())
	client.want(Rejected)
}

// early counts the requests that waited for a listener.
func (m *manager) early() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ib.agent.Counters()[ibcm.EarlyREQ]
}

// connections counts the connections of the manager's agent.
func (m *manager) connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ib.agent.Len()
}

func TestDestroyingAListenerRefusesWhatNobodyFetched(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listening(TCP, loopback4)
	client := a.resolved(TCP, l.LocalAddr()).equip(ib.QPTypeRC)
	check(t, client.Connect(&someParam))
	for b.refCount() < 3 { // the manager's own, the listener and the request
		time.Sleep(100 * time.Microsecond)
	}
	check(t, l.Destroy())
	client.want(Rejected)
}

// Disconnect of a connection that is not up ends its queue pair, and no more.
func TestDisconnectBeforeTheConnectionIsUp(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listening(TCP, loopback4)
	client := a.resolved(TCP, l.LocalAddr()).equip(ib.QPTypeRC)
	check(t, client.Connect(&someParam))
	server := f.own(l.want(ConnectRequest).ID, l.ch)
	check(t, client.Disconnect())
	check(t, server.Disconnect())
	if s := client.QP().State(); s != ib.QPErr {
		t.Errorf("queue pair in %v", s)
	}
	check(t, server.Reject(nil))
	client.want(Rejected)
}

// forget makes a killed process's manager end at once: nobody answers it.
func (m *manager) forget() {
	m.mu.Lock()
	m.ib.agent = ibcm.New(ibcm.Config{Random: m.random})
	m.mu.Unlock()
}

func (m *manager) refCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refs
}

func TestDestroyEndsAConnection(t *testing.T) {
	client, server := newFabric(t).connected(TCP, ib.QPTypeRC, loopback4)
	if err := client.Destroy(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("with a queue pair: %v", err)
	}
	check(t, client.DestroyQP())
	check(t, client.Destroy())
	server.want(Disconnected)
	if err := client.Destroy(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("twice: %v", err)
	}
}

// CVE-2018-14734 and CVE-2020-36385: moving an identifier to another channel
// while it is destroyed used freed memory in Linux. Run with -race.
func TestCVE_2020_36385_MigrateWhileDestroying(t *testing.T) {
	f := newFabric(t)
	p := f.process(1)
	for range 50 {
		id := p.newID(TCP)
		check(t, id.ResolveAddr(context.Background(), netip.AddrPort{}, netip.AddrPortFrom(loopback4, 9)))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _ = id.Migrate(NewEventChannel()) })
		}
		wg.Go(func() { check(t, id.Destroy()) })
		wg.Wait()
	}
}

// An application that disconnects by itself does not wait for completions that it does not poll.
func TestOwnDisconnectDoesNotWait(t *testing.T) {
	took := monotime.Duration(math.MaxInt64)
	for try := 0; try < 5 && took >= disconnectDelay; try++ { // the machine may be slow
		client, server := newFabric(t).connected(TCP, ib.QPTypeRC, loopback4)
		check(t, client.Disconnect()) // its receive is flushed
		server.want(Disconnected)
		begin := monotime.Now()
		check(t, server.Disconnect())
		client.want(Disconnected)
		took = monotime.Now().Sub(begin)
	}
	if took >= disconnectDelay {
		t.Errorf("told after %v", took)
	}
}

// A peer's disconnection waits until the application has polled the completions before it, but not
// for long.
func TestDisconnectedDoesNotOvertakeCompletions(t *testing.T) {
	client, server := newFabric(t).connected(TCP, ib.QPTypeRC, loopback4)
	_, err := client.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ib.SGE{client.mr.SGE(0, 9)}})
	check(t, err)
	wc := client.completion() // the server has the message, and has not polled
	check(t, wc.Err())
	begin := monotime.Now()
	check(t, client.Disconnect())
	server.want(Disconnected)
	if d := monotime.Now().Sub(begin); d < disconnectDelay {
		t.Errorf("told after %v, with a completion that was not polled", d)
	}
	wc = server.completion()
	check(t, wc.Err())
}
