// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package verbs_test

import (
	"bytes"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
	"verbena/internal/testkit/loopback"
	"verbena/internal/transport/iwarp"
	"verbena/verbs"
)

const iwarpLoopback = "iwarp_lo"

// mpaEnd stands for the connection manager: it speaks MPA for a queue pair.
type mpaEnd struct {
	qp     *verbs.QP
	conn   *mpa.Conn
	stream *iwarp.Stream
	accept bool
	result chan error
}

func (m *mpaEnd) Connected() {
	b, _ := m.conn.PollOutput()
	m.stream.Send(b)
}

func (m *mpaEnd) Closed(err error) { m.result <- err }

func (m *mpaEnd) Input(b []byte) bool {
	rest := bytes.Clone(m.conn.HandleInput(b))
	switch m.conn.State() {
	case mpa.StateDeciding, mpa.StateReady:
		go m.connect(rest)
		return m.accept
	}
	return true
}

func (m *mpaEnd) connect(early []byte) {
	p := iwarp.Connected{Initiator: !m.accept, Extensions: true, Early: early}
	if m.accept {
		if err := m.conn.Accept(8, 8, nil); err != nil {
			m.result <- err
			return
		}
		p.First, _ = m.conn.PollOutput()
	}
	p.Settled = m.conn.Settled()
	m.result <- (*core.QP)(m.qp).ConnectStream(m.stream, p)
}

// iwarpEnds returns two queue pairs of iWARP in RTS.
func iwarpEnds(t *testing.T, size int, change ...func(*verbs.QPInitAttr)) (a, b *end) {
	t.Helper()
	a, b = initEnd(t, iwarpLoopback, size, change...), initEnd(t, iwarpLoopback, size, change...)
	result := make(chan error, 4)
	eng := (*core.Context)(a.ctx).Engine()
	rtr := mpa.RTRs(mpa.RTRRead)
	l, err := iwarp.Of(eng).Listen(netip.MustParseAddrPort("127.0.0.1:0"), 1, func(s *iwarp.Stream) iwarp.StreamEvents {
		return &mpaEnd{qp: b.qp, stream: s, accept: true, result: result, conn: mpa.NewResponder(monotime.Now(), mpa.Options{RTR: rtr})}
	})
	check(t, err)
	check(t, l.Start())
	defer l.Close()
	conn, err := mpa.NewInitiator(monotime.Now(), mpa.Options{IRD: 8, ORD: 8, RTR: rtr})
	check(t, err)
	_, err = iwarp.Of(eng).Dial(netip.AddrPort{}, l.Addr(), func(s *iwarp.Stream) iwarp.StreamEvents {
		return &mpaEnd{qp: a.qp, stream: s, result: result, conn: conn}
	})
	check(t, err)
	for range 2 {
		select {
		case err := <-result:
			check(t, err)
		case <-time.After(20 * time.Second):
			t.Fatal("the streams were not connected")
		}
	}
	return a, b
}

func TestIWARPSpeaksTheSameVerbs(t *testing.T) {
	a, b := iwarpEnds(t, 1<<20)
	speakSameVerbs(t, a, b, func() error { return (*core.QP)(a.qp).DisconnectStream() })
}

func TestNullRegionIWARP(t *testing.T) {
	a, b := iwarpEnds(t, 3<<20)
	nullRegion(t, a, b)
}

func TestIWARPRefuses(t *testing.T) {
	wantRefusals(t, iwarpLoopback)
	a, b := iwarpEnds(t, 1024)
	for _, op := range []ib.WROpcode{ib.WRSendWithImm, ib.WRAtomicWrite, ib.WRFlush} {
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: op})
		wantError(t, err, syscall.EINVAL, "Opcode")
	}
	if s := b.qp.State(); s != ib.QPRTS {
		t.Errorf("the peer is in %v", s)
	}
	wantError(t, (*core.QP)(newEnd(t, ib.QPTypeRC, 1024).qp).DisconnectStream(), syscall.EOPNOTSUPP, "QP")
}

// TestIWARPFaults has faults refused that no stream of TCP can have.
func TestIWARPFaults(t *testing.T) {
	_, err := verbs.Open(iwarpLoopback, verbs.WithFaults("loss=1%"))
	wantError(t, err, syscall.EINVAL, "faults")
	_, err = verbs.Open(loopback.Device(t), verbs.WithFaults("cut=1%"))
	wantError(t, err, syscall.EINVAL, "faults")
	c, err := verbs.Open(iwarpLoopback, verbs.WithFaults("corrupt=1%,cut=1%,delay=1ms"))
	check(t, err)
	check(t, c.Close())
}
