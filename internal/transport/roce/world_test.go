// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"os"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/xsk"
	"verbena/internal/testkit/rig"
	"verbena/internal/testkit/xdpwire"
	"verbena/internal/transport/shm"
)

type (
	node     = rig.Node
	endpoint = rig.Endpoint
)

// how is the kind of node that a test wants.
type how struct {
	Dir           string
	Solo, NoLocal bool
	Capture       *faultcap.Capture
	Frames        []portshare.Interface
	Attach        portshare.Attach
	LookUp        xsk.LookUp
}

// With VERBENA_TEST_XDP=1 nodes of newNode have frames of an interface.
func TestMain(m *testing.M) { os.Exit(xdpwire.Main(m)) }

// newNode starts an engine that is alone on its address.
func newNode(t testing.TB, nap monotime.Duration) *node {
	t.Helper()
	if p := xdpwire.Of(t); p != nil {
		return startNodeAt(t, nap, how{Dir: p.Dir, NoLocal: true, Frames: p.Frames, Attach: p.Attach, LookUp: p.LookUp}, p.Addr)
	}
	return startNode(t, nap, how{Solo: true})
}

// startNode starts a node of some kind on an address of its own.
func startNode(t testing.TB, nap monotime.Duration, o how) *node {
	t.Helper()
	xdpwire.Skip(t, "its nodes have sockets, or rings within the host")
	return startNodeAt(t, nap, o, rig.NewAddr())
}

func startNodeAt(t testing.TB, nap monotime.Duration, o how, addr netip.Addr) *node {
	t.Helper()
	component := Component(Options{Dir: o.Dir, Solo: o.Solo, NoLocal: o.NoLocal, Frames: o.Frames, Attach: o.Attach, LookUp: o.LookUp})
	n := rig.NewNode(t, engine.Options{Capture: o.Capture, Nap: nap, Components: []func(*engine.Engine) (engine.Component, error){component}}, roce.CounterNames())
	n.Addr, n.Dir = addr, o.Dir
	if err := Of(n.Eng).Listen(addr); err != nil {
		t.Fatal(err)
	}
	return n
}

// connOf returns the Conn of an endpoint.
func connOf(e *endpoint) *Conn {
	c, _ := ConnOf(e.Conn)
	return c
}

// ringsOf shows a node's rings.
func ringsOf(n *node) shm.Probe { return Of(n.Eng).rings.Probe() }

func newEndpoint(n *node, bytes int) *endpoint {
	n.T.Helper()
	return as(n, bytes, func(_ *endpoint, c roce.Config) roce.Machine { return rc.New(c) })
}

// as makes a queue pair of a machine that is made for it.
func as(n *node, bytes int, machine func(*endpoint, roce.Config) roce.Machine) *endpoint {
	n.T.Helper()
	return asOf(n, n.Eng.FirstLane(), bytes, machine)
}

// asOf is as for completion queues with a Lane.
func asOf(n *node, lane *engine.Lane, bytes int,
	machine func(*endpoint, roce.Config) roce.Machine) *endpoint {
	n.T.Helper()
	e := n.Parts(bytes)
	var err error
	e.Conn, err = Of(n.Eng).NewConn(n.Counters, func(qpn ib.QPN) roce.Machine { return machine(e, e.Config(qpn)) }, func(ib.EventType) {},
		lane)
	if err != nil {
		n.T.Fatal(err)
	}
	return e
}

// connect takes e to RTS with a peer, which need not be connected yet.
func connect(e, peer *endpoint) {
	e.Node.T.Helper()
	connectAt(e, peer.QPN(), peer.Node.Addr, 14, 7)
}

func connectAt(e *endpoint, qpn ib.QPN, addr netip.Addr, timeout, retries uint8) {
	e.Node.T.Helper()
	connectBy(e, qpn, addr, ib.MTU1024, timeout, retries)
}

// connectBy is connectAt with a path MTU.
func connectBy(e *endpoint, qpn ib.QPN, addr netip.Addr, mtu ib.MTU, timeout, retries uint8) {
	e.Node.T.Helper()
	for _, s := range []struct {
		a    ib.QPAttr
		mask ib.QPAttrMask
	}{
		{ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPAccessFlags},
		{ib.QPAttr{State: ib.QPRTR, PathMTU: mtu, DestQPN: qpn, RQPSN: 5, MaxDestRdAtomic: 4, MinRNRTimer: 1,
			AH: ib.AHAttr{GRH: ib.GRH{DGID: ib.GIDFromAddr(addr)}}}, ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN | ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer},
		{ib.QPAttr{State: ib.QPRTS, SQPSN: 5, Timeout: timeout, RetryCnt: retries, RNRRetry: 7, MaxRdAtomic: 4},
			ib.QPSQPSN | ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry | ib.QPMaxQPRdAtomic},
	} {
		if err := e.ModifyTo(&s.a, s.mask); err != nil {
			e.Node.T.Fatal(err)
		}
	}
}

func pair(t testing.TB, nap monotime.Duration, bytes int) (a, b *endpoint) {
	t.Helper()
	return couple(t, newNode(t, nap), newNode(t, nap), bytes)
}

// remote is a queue pair of another process, as it tells of itself.
type remote struct {
	Addr  netip.Addr
	QPN   ib.QPN
	RKey  ib.RKey
	Local bool // it sends by a ring
}
