// SPDX-License-Identifier: BSD-2-Clause

package mpa

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/testkit/stream"
	wire "verbena/internal/wire/iwarp"
)

// carry moves bytes from one end to the other in small pieces and returns the rest.
func carry(from, to *Conn) (rest []byte) {
	b, _ := from.PollOutput()
	for len(b) > 0 {
		k := min(3, len(b))
		rest = append(rest, to.HandleInput(b[:k])...)
		b = b[k:]
	}
	return rest
}

func open(t *testing.T, i, r Options) (*Conn, *Conn) {
	t.Helper()
	a, err := NewInitiator(0, i)
	if err != nil {
		t.Fatal(err)
	}
	b := NewResponder(0, r)
	if rest := carry(a, b); len(rest) != 0 || b.State() != StateDeciding {
		t.Fatalf("%v (%v), %d bytes left", b.State(), b.Reason(), len(rest))
	}
	return a, b
}

func accept(t *testing.T, a, b *Conn, private string) {
	t.Helper()
	if err := b.Accept(b.opt.IRD, b.opt.ORD, []byte(private)); err != nil {
		t.Fatal(err)
	}
	carry(b, a)
}

// TestAgreement checks which options two ends agree on.
func TestAgreement(t *testing.T) {
	all := RTRs(RTREmpty, RTRWrite, RTRRead)
	for _, c := range []struct {
		name       string
		i, r       Options
		wantI      Settled
		wantR      Settled
		state      State // of the initiator
		reason     Reason
		terminates wire.TermError
	}{
		{name: "revision 1", i: Options{Revision: 1, IRD: 4, ORD: 4}, r: Options{IRD: 2, ORD: 2},
			wantI: Settled{IRD: 4, ORD: 4}, wantR: Settled{IRD: 2, ORD: 2}, state: StateReady},
		{name: "CRC, the initiator wants it", i: Options{Revision: 1, CRC: true}, wantI: Settled{CRC: true}, wantR: Settled{CRC: true}, state: StateReady},
		{name: "extensions, where both have them", i: Options{Extensions: true}, r: Options{Extensions: true},
			wantI: Settled{Extensions: true}, wantR: Settled{Extensions: true}, state: StateReady},
		{name: "extensions of one end", i: Options{Extensions: true}, state: StateReady},
		{name: "extensions of the other end", r: Options{Extensions: true}, state: StateReady},
		{name: "CRC, the responder wants it", r: Options{CRC: true}, wantI: Settled{CRC: true}, wantR: Settled{CRC: true}, state: StateReady},
		{name: "depths, each asks for less than the other serves", i: Options{IRD: 8, ORD: 2}, r: Options{IRD: 16, ORD: 4},
			wantI: Settled{IRD: 8, ORD: 2}, wantR: Settled{IRD: 16, ORD: 4}, state: StateReady},
		{name: "depths, each asks for more", i: Options{IRD: 1, ORD: 100}, r: Options{IRD: 3, ORD: 200},
			wantI: Settled{IRD: 1, ORD: 3}, wantR: Settled{IRD: 3, ORD: 1}, state: StateReady},
		{name: "all kinds of RTR: one is picked", i: Options{IRD: 4, ORD: 4, RTR: all}, r: Options{IRD: 4, ORD: 4, RTR: all},
			wantI: Settled{IRD: 4, ORD: 4, RTR: RTRRead}, wantR: Settled{IRD: 4, ORD: 4, RTR: RTRRead}, state: StateReady},
		{name: "the responder chooses", i: Options{IRD: 4, ORD: 4, RTR: all}, r: Options{IRD: 4, ORD: 4, RTR: RTRs(RTRWrite, RTREmpty)},
			wantI: Settled{IRD: 4, ORD: 4, RTR: RTRWrite}, wantR: Settled{IRD: 4, ORD: 4, RTR: RTRWrite}, state: StateReady},
		{name: "RTR by READ without depth", i: Options{RTR: all}, r: Options{RTR: all},
			wantI: Settled{RTR: RTRRead}, wantR: Settled{IRD: 1, RTR: RTRRead}, state: StateReady},
		{name: "no kind of RTR in common", i: Options{RTR: RTRs(RTREmpty)}, r: Options{RTR: RTRs(RTRRead)},
			wantR: Settled{}, state: StateFailed, reason: ReasonNoRTR, terminates: wire.MPANoMatchingRTR},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := open(t, c.i, c.r)
			accept(t, a, b, "")
			if a.State() != c.state || a.Reason() != c.reason {
				t.Fatalf("initiator %v (%v)", a.State(), a.Reason())
			}
			if b.Settled() != c.wantR || b.State() != StateReady {
				t.Errorf("responder %v %+v, want %+v", b.State(), b.Settled(), c.wantR)
			}
			if c.state == StateReady && a.Settled() != c.wantI {
				t.Errorf("initiator %+v, want %+v", a.Settled(), c.wantI)
			}
			out, _ := a.PollOutput()
			if c.state == StateReady {
				if len(out) != 0 {
					t.Errorf("initiator sends %x", out)
				}
				return
			}
			wantTerminate(t, out, c.terminates)
		})
	}
}

func wantTerminate(t *testing.T, out []byte, e wire.TermError) {
	t.Helper()
	ulpdus, _ := deframe(&Deframer{}, out, whole)
	if len(ulpdus) != 1 {
		t.Fatalf("%d FPDUs", len(ulpdus))
	}
	h, payload, _ := wire.ParseHeader(ulpdus[0])
	m, _, ok := wire.ParseTermMsg(payload)
	if !ok || h.Opcode != wire.Terminate || h.QN != wire.QNTerminate || h.MSN != 1 || m.TermError != e {
		t.Errorf("%+v %+v, want %v", h, m, e)
	}
}

// TestEchoesControlFlagA: iw_cxgb4 calls it an RTR mismatch otherwise
// (zrlio/softiwarp#18, RFC 6581, 9.2).
func TestEchoesControlFlagA(t *testing.T) {
	a, b := open(t, Options{RTR: RTRs(RTRRead, RTRWrite)}, Options{RTR: RTRs(RTRRead)})
	accept(t, a, b, "")
	if e := a.Peer().Enhanced; !e.PeerToPeer || !e.ReadRTR || e.WriteRTR || e.EmptyFPDU {
		t.Errorf("Reply %+v: want A, and D alone", e)
	}
	a, b = open(t, Options{}, Options{RTR: RTRs(RTRRead)})
	accept(t, a, b, "")
	if e := a.Peer().Enhanced; e.PeerToPeer || e.ReadRTR {
		t.Errorf("Reply %+v to a client-server Request", e)
	}
}

// TestReplyThatRepeatsTheRequest: siw answers with the flags that it was asked
// with, a reserved bit among them, and has no extensions.
func TestReplyThatRepeatsTheRequest(t *testing.T) {
	a, _ := NewInitiator(0, Options{CRC: true, Extensions: true, IRD: 4, ORD: 4, RTR: RTRs(RTRRead)})
	f, _ := a.PollOutput()
	copy(f, wire.MPAFrame{Reply: true, Revision: 2}.Append(nil)[:16])
	a.HandleInput(f)
	if s := a.Settled(); a.State() != StateReady || s.Extensions || !s.CRC || s.RTR != RTRRead {
		t.Errorf("%v %+v", a.State(), s)
	}
}

// TestSendsWhatTheResponderChose: the initiator sends the ready-to-receive message that the
// responder chose, not its own preference (zrlio/softiwarp#20). It sends one kind where a careless
// responder names several (#17).
func TestSendsWhatTheResponderChose(t *testing.T) {
	for _, c := range []struct {
		e    wire.Enhanced
		want RTR
	}{
		{wire.Enhanced{PeerToPeer: true, WriteRTR: true, IRD: 1, ORD: 1}, RTRWrite},
		{wire.Enhanced{PeerToPeer: true, EmptyFPDU: true, IRD: 1, ORD: 1}, RTREmpty},
		{wire.Enhanced{PeerToPeer: true, EmptyFPDU: true, WriteRTR: true, IRD: 1, ORD: 1}, RTRWrite},
	} {
		a, _ := NewInitiator(0, Options{IRD: 4, ORD: 4, RTR: RTRs(RTREmpty, RTRWrite, RTRRead)})
		a.HandleInput(wire.MPAFrame{Reply: true, Revision: 2, IsEnhanced: true, Enhanced: c.e}.Append(nil))
		if a.State() != StateReady || a.Settled().RTR != c.want {
			t.Errorf("%+v: %v, RTR %v", c.e, a.State(), a.Settled().RTR)
		}
	}
}

// TestInsufficientIRD: a responder that will ask for more READs than the
// initiator serves gets a Terminate.
func TestInsufficientIRD(t *testing.T) {
	a, _ := NewInitiator(0, Options{IRD: 2, ORD: 2})
	a.PollOutput()
	a.HandleInput(wire.MPAFrame{Reply: true, Revision: 2, IsEnhanced: true, Enhanced: wire.Enhanced{IRD: 2, ORD: 3}}.Append(nil))
	if a.State() != StateFailed || a.Reason() != ReasonInsufficient {
		t.Fatalf("%v %v", a.State(), a.Reason())
	}
	out, _ := a.PollOutput()
	wantTerminate(t, out, wire.MPAInsufficientIRD)
}

// TestMarkersOfThePeer: sent if asked for, never asked for.
func TestMarkersOfThePeer(t *testing.T) {
	b := NewResponder(0, Options{})
	b.HandleInput(wire.MPAFrame{Markers: true, Revision: 1}.Append(nil))
	if err := b.Accept(1, 1, nil); err != nil || !b.Settled().SendMarkers {
		t.Fatalf("%v %+v", err, b.Settled())
	}
	out, _ := b.PollOutput()
	if f, _, _ := wire.ParseMPAFrame(out); f.Markers {
		t.Error("asks for markers")
	}
}

// TestPrivateData goes both ways and has limits.
func TestPrivateData(t *testing.T) {
	a, b := open(t, Options{PrivateData: []byte("question")}, Options{})
	if string(b.Peer().PrivateData) != "question" {
		t.Errorf("%q", b.Peer().PrivateData)
	}
	accept(t, a, b, "answer")
	if string(a.Peer().PrivateData) != "answer" {
		t.Errorf("%q", a.Peer().PrivateData)
	}
	for revision, n := range map[uint8]int{1: 512, 2: 508} {
		if MaxPrivateData(revision) != n {
			t.Errorf("revision %d: %d", revision, MaxPrivateData(revision))
		}
		if _, err := NewInitiator(0, Options{Revision: revision, PrivateData: make([]byte, n)}); err != nil {
			t.Error(err)
		}
		if _, err := NewInitiator(0, Options{Revision: revision, PrivateData: make([]byte, n+1)}); !errors.Is(err, ErrPrivateData) {
			t.Error(err)
		}
		_, b := open(t, Options{Revision: revision}, Options{})
		if err := b.Accept(0, 0, make([]byte, n+1)); !errors.Is(err, ErrPrivateData) {
			t.Error(err)
		}
		if err := b.Reject(make([]byte, n)); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewInitiator(0, Options{Revision: 3}); !errors.Is(err, ErrRevision) {
		t.Error(err)
	}
}

// TestReject carries private data and ends both.
func TestReject(t *testing.T) {
	a, b := open(t, Options{RTR: RTRs(RTRRead)}, Options{})
	if err := b.Reject([]byte("no")); err != nil {
		t.Fatal(err)
	}
	carry(b, a)
	if a.State() != StateRefused || b.State() != StateRefused || string(a.Peer().PrivateData) != "no" || !a.Peer().Reject {
		t.Errorf("%v %v %+v", a.State(), b.State(), a.Peer())
	}
	if err := b.Accept(0, 0, nil); !errors.Is(err, ErrState) {
		t.Errorf("accept after reject: %v", err)
	}
}

// TestRefusals lists causes that end a set-up, each with its reason.
func TestRefusals(t *testing.T) {
	req := func(change func(*wire.MPAFrame)) []byte {
		f := wire.MPAFrame{Revision: 2, IsEnhanced: true}
		change(&f)
		return f.Append(nil)
	}
	plain := req(func(*wire.MPAFrame) {})
	for _, c := range []struct {
		name  string
		bytes []byte
		want  Reason
	}{
		{"another protocol", []byte("GET / HTTP/1.1\r\n"), ReasonMalformed},
		{"a Reply", req(func(f *wire.MPAFrame) { f.Reply = true }), ReasonMalformed},
		{"a rejecting Request", req(func(f *wire.MPAFrame) { f.Reject = true }), ReasonMalformed},
		{"revision 0", req(func(f *wire.MPAFrame) { f.Revision, f.IsEnhanced = 0, false }), ReasonRevision},
		{"revision 3", req(func(f *wire.MPAFrame) { f.Revision = 3 }), ReasonRevision},
		{"revision 1, enhanced", req(func(f *wire.MPAFrame) { f.Revision = 1 }), ReasonRevision},
		{"bytes behind", append(bytes.Clone(plain), 0), ReasonEarly},
	} {
		b := NewResponder(0, Options{})
		b.HandleInput(c.bytes)
		if b.State() != StateFailed || b.Reason() != c.want {
			t.Errorf("%s: %v (%v), want %v", c.name, b.State(), b.Reason(), c.want)
		}
		if out, ok := b.PollOutput(); ok {
			t.Errorf("%s: answers %x", c.name, out)
		}
		if _, ok := b.PollOutput(); ok || b.NextTimeout() != monotime.Never {
			t.Errorf("%s: lives on", c.name)
		}
	}
	b := NewResponder(0, Options{})
	b.HandleInput(plain)
	if b.HandleInput([]byte{1}); b.Reason() != ReasonEarly {
		t.Errorf("bytes while deciding: %v", b.Reason())
	}
	for name, f := range map[string]wire.MPAFrame{
		"a Request": {Revision: 2}, "revision 1": {Reply: true, Revision: 1}, "revision 3": {Reply: true, Revision: 3},
	} {
		a, _ := NewInitiator(0, Options{})
		a.HandleInput(f.Append(nil))
		if a.State() != StateFailed {
			t.Errorf("%s: %v", name, a.State())
		}
	}
}

// TestPeerClosesDuringSetUp: CVE-2023-52513.
func TestPeerClosesDuringSetUp(t *testing.T) {
	request := wire.MPAFrame{Revision: 2}.Append(nil)
	for n := range len(request) + 1 {
		b := NewResponder(0, Options{})
		b.HandleInput(request[:n])
		b.HandleClose()
		if b.State() != StateFailed || b.Reason() != ReasonClosed {
			t.Fatalf("after %d bytes: %v", n, b.State())
		}
		if err := b.Accept(0, 0, nil); !errors.Is(err, ErrState) {
			t.Fatalf("accepted a stream that is gone: %v", err)
		}
		b.HandleClose()
	}
	a, _ := NewInitiator(0, Options{})
	a.HandleClose()
	if a.HandleInput(wire.MPAFrame{Reply: true, Revision: 2}.Append(nil)); a.State() != StateFailed {
		t.Errorf("initiator %v", a.State())
	}
}

// TestSecondReply: bytes after a Reply are for the Deframer (CVE-2022-50136).
func TestSecondReply(t *testing.T) {
	a, _ := NewInitiator(0, Options{})
	reply := wire.MPAFrame{Reply: true, Revision: 2}.Append(nil)
	rest := a.HandleInput(append(bytes.Clone(reply), reply...))
	if a.State() != StateReady || !bytes.Equal(rest, reply) {
		t.Errorf("%v, %d bytes left", a.State(), len(rest))
	}
	if got := a.HandleInput(reply); !bytes.Equal(got, reply) || a.State() != StateReady {
		t.Errorf("%v, %d bytes left", a.State(), len(got))
	}
}

// TestTimeouts run out while the other end is silent, and not while the
// application decides.
func TestTimeouts(t *testing.T) {
	a, _ := NewInitiator(0, Options{})
	b := NewResponder(0, Options{})
	for _, c := range []*Conn{a, b} {
		at := c.NextTimeout()
		c.HandleTimeout(at - 1)
		if c.State() == StateFailed {
			t.Error("too early")
		}
		c.HandleTimeout(at)
		if c.State() != StateFailed || c.Reason() != ReasonTimeout || c.NextTimeout() != monotime.Never {
			t.Errorf("%v (%v)", c.State(), c.Reason())
		}
	}
	_, b = open(t, Options{}, Options{})
	if b.NextTimeout() != monotime.Never {
		t.Error("the application is hurried")
	}
}

// TestCapturedSetUp plays siw's recorded frames to both ends of ours.
func TestCapturedSetUp(t *testing.T) {
	n := 0
	for _, c := range stream.LoadAll(t, "../../../testdata/captures") {
		req, after, ok := wire.ParseMPAFrame(c.Sent[0])
		if !ok || len(c.Sent[1]) == 0 {
			continue
		}
		n++
		b := NewResponder(0, Options{IRD: 16, ORD: 16, RTR: RTRs(RTRRead)})
		b.HandleInput(c.Sent[0][:len(c.Sent[0])-len(after)])
		if b.State() != StateDeciding || !bytes.Equal(b.Peer().PrivateData, req.PrivateData) {
			t.Fatalf("%s: %v (%v)", c.Name, b.State(), b.Reason())
		}
		if err := b.Accept(16, 16, []byte("hello")); err != nil || b.Settled().CRC || b.Settled().SendMarkers {
			t.Errorf("%s: %v %+v", c.Name, err, b.Settled())
		}
		a, _ := NewInitiator(0, Options{IRD: 128, ORD: 128})
		rest := a.HandleInput(c.Sent[1])
		want := StateReady
		if strings.Contains(c.Name, "reject") {
			want = StateRefused
		}
		if _, fpdus, _ := wire.ParseMPAFrame(c.Sent[1]); a.State() != want || !bytes.Equal(rest, fpdus) {
			t.Errorf("%s: %v, %d bytes left of %d", c.Name, a.State(), len(rest), len(fpdus))
		}
	}
	if n < 20 {
		t.Errorf("%d set-ups", n)
	}
}

// FuzzConn feeds anything to both ends, whole and in pieces.
func FuzzConn(f *testing.F) {
	for _, m := range []wire.MPAFrame{
		{Revision: 2, IsEnhanced: true, Enhanced: wire.Enhanced{PeerToPeer: true, ReadRTR: true, IRD: 1, ORD: 1}, PrivateData: []byte("abc")},
		{Reply: true, Revision: 2, IsEnhanced: true}, {Reply: true, Revision: 2, Reject: true}, {Revision: 1, Markers: true},
	} {
		f.Add(append(m.Append(nil), 1, 2, 3), uint64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		o := Options{IRD: 4, ORD: 4, CRC: true, RTR: RTRs(RTRRead, RTRWrite)}
		for _, make := range []func() *Conn{
			func() *Conn { c, _ := NewInitiator(0, o); return c },
			func() *Conn { return NewResponder(0, o) },
		} {
			one, many := make(), make()
			want := one.HandleInput(b)
			rnd := rand.New(rand.NewPCG(seed, 1))
			var got []byte
			for p := b; len(p) > 0; {
				k := 1 + rnd.IntN(len(p))
				got = append(got, many.HandleInput(p[:k])...)
				p = p[k:]
			}
			early := one.Reason() == ReasonEarly || many.Reason() == ReasonEarly // pieces change the bytes that came with the Request
			if one.State() != many.State() && !early || one.State() == StateReady && (!bytes.Equal(got, want) || one.Settled() != many.Settled()) {
				t.Fatalf("%v (%v), in pieces %v (%v)", one.State(), one.Reason(), many.State(), many.Reason())
			}
		}
	})
}
