// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/talk"
	"verbena/internal/wire/cm"
	"verbena/internal/wire/roce"
	"verbena/internal/wire/trp"
)

// circle is a capture of forged packets: connection managers ask for a connection of their own
// queue pairs, and then for the same the other way round.
func circle(t testing.TB) []byte {
	c := talk.New(t)
	mad := func(back bool, src ib.QPN, payload []byte) {
		c.Packet(back, roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: ib.QP1},
			DETH: roce.DETH{SrcQP: src}, Payload: payload})
	}
	other := make([]byte, cm.HeaderSize+cm.DataSize) // of no connection manager
	mad(false, 0, other)
	mad(true, 0, other)
	a, b := ib.GIDFromAddr(talk.A.Addr()), ib.GIDFromAddr(talk.B.Addr())
	for _, path := range []cm.Path{{LocalGID: a, RemoteGID: b}, {LocalGID: b, RemoteGID: a}} {
		req := cm.REQ{LocalCommID: 7, LocalQPN: 1, Primary: path}
		mad(false, 1, req.Append(cm.NewHeader(cm.AttrREQ, 1).Append(nil)))
		rep := cm.REP{LocalCommID: 9, RemoteCommID: 7, LocalQPN: 1}
		mad(true, 1, rep.Append(cm.NewHeader(cm.AttrREP, 1).Append(nil)))
	}
	return c.Bytes()
}

// TestForgedHandshakeEnds: connection managers are no connection's queue pairs.
func TestForgedHandshakeEnds(t *testing.T) {
	tl := read(t, circle(t))
	for _, c := range tl.Conns {
		if c.Protocol != protoCM {
			t.Errorf("%s %v ⇄ %v", c.Protocol, &c.A, &c.B)
		}
	}
	if n := tl.Packets.Len(); n != 6 {
		t.Errorf("%d packets", n)
	}
}

// TestGapsAreBounded: packets that come late split a gap into no more than maxGaps.
func TestGapsAreBounded(t *testing.T) {
	var s space
	s.send(0, 1, 0, 0, 0)
	s.send(1<<20, 1, 0, 0, 0)
	for n := int64(2); n < 8*maxGaps; n += 2 {
		if k, _ := s.send(n, 1, 0, 0, 0); k != Late {
			t.Fatalf("%d is %v", n, k)
		}
	}
	if len(s.gaps) != maxGaps {
		t.Errorf("%d gaps", len(s.gaps))
	}
}

// TestOneTerminateEnds: a stream ends with its first Terminate. Further ones are only counted.
func TestOneTerminateEnds(t *testing.T) {
	b := &builder{t: &Timeline{}, flows: map[flowKey]*flow{}}
	f := b.flow(flowKey{srcPort: 1}, protoIWARP)
	row := b.row(f, Sent, 0, 0)
	for i := range int64(3) {
		b.beginOp(f, request{row: row, from: i, n: 1}, int(i))
	}
	b.terminate(f, row, "x")
	b.terminate(f, row, "x")
	if f.h.Failed != 1 || f.h.NAKs["x"] != 2 || b.t.Ops[2].Status != Failed {
		t.Errorf("%+v, %+v", f.h, b.t.Ops)
	}
}

// TestFindingsAreBounded: a peer that refuses for many reasons does not fill the page.
func TestFindingsAreBounded(t *testing.T) {
	var tl Timeline
	c := &Conn{A: End{Health: Health{NAKs: map[string]uint64{}}}}
	for i := range 1000 {
		c.A.NAKs[fmt.Sprint(i)] = 1
	}
	if tl.find(c); len(c.Findings) != maxFindings {
		t.Errorf("%d findings", len(c.Findings))
	}
}

// TestBeforeTheFirst: a packet with a lower PSN than the first of the capture has number 0, too.
func TestBeforeTheFirst(t *testing.T) {
	for _, o := range []roce.Opcode{roce.RCSendOnly, roce.UCSendOnly} {
		c := talk.New(t)
		c.Send(o, 10, 1)
		c.Send(o, 5, 1)
		tl := read(t, c.Bytes())
		if n := tl.Packets.Number[1]; n != 0 || tl.Conns[0].A.Base != 10 {
			t.Errorf("%v: number %d, base %d", o, n, tl.Conns[0].A.Base)
		}
	}
	b := &builder{t: &Timeline{}, flows: map[flowKey]*flow{}}
	f, g := b.flow(flowKey{srcPort: 1}, protoTRP), b.flow(flowKey{srcPort: 2}, protoTRP)
	pair(f, g)
	for _, psn := range []uint32{10, 5} {
		p := trp.Packet{Header: trp.Header{Opcode: trp.Data, PSN: trp.PSN(psn)}, Payload: []byte{1}}
		b.trpPacket(f, b.row(f, Ack, 0, 0), &p, 0)
	}
	if n := b.t.Packets.Number[1]; n != 0 {
		t.Errorf("TRP: number %d", n)
	}
}

// TestOutstanding asks for each number around those in flight.
func TestOutstanding(t *testing.T) {
	var f flow
	for _, r := range [][2]int64{{10, 1}, {11, 4}, {20, 1}} {
		f.space.send(r[0], r[1], 0, 0, 0)
	}
	for n := range int64(30) {
		want := n >= 10 && n < 15 || n == 20
		if got := f.outstanding(n); got != want {
			t.Errorf("%d: %v", n, got)
		}
	}
	f.space.loose = true // a READ at 20 of unknown length
	if !f.outstanding(21) || f.outstanding(22) {
		t.Error("the number behind a READ of unknown length is not right")
	}
}
