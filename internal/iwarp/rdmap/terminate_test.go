// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/queue"
	"verbena/internal/testkit/stream"
	wire "verbena/internal/wire/iwarp"
)

// ulpdus takes a stream apart.
func ulpdus(t *testing.T, b []byte, crc bool) (all [][]byte) {
	t.Helper()
	d := &mpa.Deframer{CRC: crc}
	var u []byte
	for len(b) > 0 {
		var ev mpa.Event
		var data []byte
		switch ev, data, b = d.Next(b); ev {
		case mpa.Data:
			u = append(u, data...)
		case mpa.Ended:
			all, u = append(all, u), nil
		case mpa.BadCRC, mpa.BadMarker:
			t.Fatalf("a stream of ours is wrong: %d", ev)
		}
	}
	return all
}

// wantTerminate takes the output of an end, whose last message must be a Terminate that says e, and
// returns it.
func (e *end) wantTerminate(want wire.TermError) wire.TermMsg {
	e.t.Helper()
	e.pump()
	t := e.t.(*testing.T)
	all := ulpdus(t, e.out, e.s.in.CRC)
	e.out = nil
	if len(all) == 0 {
		e.fatalf("nothing is sent, want Terminate %v", want)
	}
	h, payload, _ := wire.ParseHeader(all[len(all)-1])
	m, rest, ok := wire.ParseTermMsg(payload)
	if !ok || h.Opcode != wire.Terminate || !h.Last || h.QN != wire.QNTerminate || h.MSN != 1 || h.MO != 0 || len(rest) != 0 || m.Swapped {
		e.fatalf("%v %+v, want Terminate", h, m)
	}
	if m.TermError != want {
		e.fatalf("Terminate %v, want %v", m.TermError, want)
	}
	if e.s.State() != ib.QPErr || e.s.Closing() != Shut {
		e.fatalf("state %v, closing %d", e.s.State(), e.s.Closing())
	}
	return m
}

// segment frames a segment with a CRC.
func segment(h wire.Header, payload ...byte) []byte {
	return wire.AppendFPDU(nil, append(h.Append(nil), payload...), true)
}

func tagged(op wire.Opcode, last bool, tag ib.RKey, to uint64) wire.Header {
	return wire.Header{Control: wire.Control{Tagged: true, Last: last, DV: 1, RV: 1, Opcode: op}, STag: tag, TO: to}
}

func untaggedH(op wire.Opcode, last bool, qn, msn, mo uint32) wire.Header {
	return wire.Header{Control: wire.Control{Last: last, DV: 1, RV: 1, Opcode: op}, QN: qn, MSN: msn, MO: mo}
}

// TestWhatASegmentMayNotBe has every error that a peer's segment can have, with
// layer, type and code of the Terminate that answers it. All are the first of
// their stream; the last ones have no header at all (CVE-2026-23242).
func TestWhatASegmentMayNotBe(t *testing.T) {
	version := func(h wire.Header, dv, rv uint8) wire.Header { h.DV, h.RV = dv, rv; return h }
	hundred := make([]byte, 100)
	for _, c := range []struct {
		name  string
		bytes func(b *end) []byte
		want  wire.TermError
		recv  ib.WCStatus // of the receive posted
		event ib.EventType
	}{
		{"DDP version, tagged", func(b *end) []byte { return segment(version(tagged(wire.RDMAWrite, true, b.mr.RKey(), base), 2, 1), 1) },
			wire.DDPTaggedVersionInvalid, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"DDP version, untagged", func(b *end) []byte { return segment(version(untaggedH(wire.Send, true, 0, 1, 0), 0, 1), 1) },
			wire.DDPUntaggedVersionInvalid, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"RDMAP version", func(b *end) []byte { return segment(version(untaggedH(wire.Send, true, 0, 1, 0), 1, 0), 1) },
			wire.RDMAPVersionInvalid, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"no such queue", func(b *end) []byte { return segment(untaggedH(wire.Send, true, 4, 1, 0), 1) },
			wire.DDPInvalidQN, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"opcode 12", func(b *end) []byte { return segment(untaggedH(12, true, 0, 1, 0), 1) },
			wire.RDMAPUnexpectedOpcode, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"SEND on the queue of READs", func(b *end) []byte { return segment(untaggedH(wire.Send, true, 1, 1, 0), 1) },
			wire.RDMAPUnexpectedOpcode, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"tagged SEND", func(b *end) []byte { return segment(tagged(wire.Send, true, b.mr.RKey(), base), 1) },
			wire.RDMAPUnexpectedOpcode, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"untagged WRITE", func(b *end) []byte { return segment(untaggedH(wire.RDMAWrite, true, 0, 1, 0), 1) },
			wire.RDMAPUnexpectedOpcode, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"READ response that nobody asked for", func(b *end) []byte { return segment(tagged(wire.ReadResponse, true, b.mr.RKey(), base), 1) },
			wire.RDMAPUnexpectedOpcode, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"atomic response that nobody asked for", func(b *end) []byte {
			return segment(untaggedH(wire.AtomicResponse, true, 3, 1, 0), wire.AtomicResp{}.Append(nil)...)
		}, wire.RDMAPUnexpectedOpcode, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"SEND number 2 first", func(b *end) []byte { return segment(untaggedH(wire.Send, true, 0, 2, 0), 1) },
			wire.DDPInvalidMSN, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"SEND that begins in the middle", func(b *end) []byte { return segment(untaggedH(wire.Send, true, 0, 1, 4), 1) },
			wire.DDPInvalidMO, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"SEND longer than its receive", func(b *end) []byte { return segment(untaggedH(wire.Send, true, 0, 1, 0), hundred...) },
			wire.DDPTooLong, ib.WCLocLenErr, ib.EventQPReqErr},
		{"immediate data inside a SEND", func(b *end) []byte {
			return append(segment(untaggedH(wire.Send, false, 0, 1, 0), 1), segment(untaggedH(wire.Immediate, true, 0, 1, 1), make([]byte, 8)...)...)
		}, wire.DDPInvalidMO, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"invalidate of no key", func(b *end) []byte {
			h := untaggedH(wire.SendInvalidate, true, 0, 1, 0)
			h.STag = b.mr.RKey() + 0x100
			return segment(h, 1)
		}, wire.RDMAPCannotInvalidate, ib.WCLocAccessErr, ib.EventQPAccessErr},
		{"invalidate of a plain region", func(b *end) []byte {
			h := untaggedH(wire.SendInvalidate, true, 0, 1, 0)
			h.STag = b.mr.RKey()
			return segment(h, 1)
		}, wire.RDMAPCannotInvalidate, ib.WCLocAccessErr, ib.EventQPAccessErr},
		{"WRITE to no key", func(b *end) []byte { return segment(tagged(wire.RDMAWrite, true, b.mr.RKey()+0x100, base), 1) },
			wire.DDPInvalidSTag, ib.WCWRFlushErr, ib.EventQPAccessErr},
		{"WRITE before the region", func(b *end) []byte { return segment(tagged(wire.RDMAWrite, true, b.mr.RKey(), base-1), 1, 2) },
			wire.DDPBounds, ib.WCWRFlushErr, ib.EventQPAccessErr},
		{"WRITE past the region", func(b *end) []byte { return segment(tagged(wire.RDMAWrite, true, b.mr.RKey(), base+memBytes-1), 1, 2) },
			wire.DDPBounds, ib.WCWRFlushErr, ib.EventQPAccessErr},
		{"WRITE round the end of addresses", func(b *end) []byte { return segment(tagged(wire.RDMAWrite, true, b.mr.RKey(), ^uint64(0)), 1, 2) },
			wire.DDPTOWrap, ib.WCWRFlushErr, ib.EventQPAccessErr},
		{"READ request too short", func(b *end) []byte { return segment(untaggedH(wire.ReadRequest, true, 1, 1, 0), make([]byte, 27)...) },
			wire.RDMAPUnspecific, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"READ request too long", func(b *end) []byte { return segment(untaggedH(wire.ReadRequest, true, 1, 1, 0), make([]byte, 29)...) },
			wire.DDPTooLong, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"READ request number 2 first", func(b *end) []byte { return segment(untaggedH(wire.ReadRequest, true, 1, 2, 0), make([]byte, 28)...) },
			wire.DDPInvalidMSN, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"READ of no key", func(b *end) []byte {
			return readSegment(wire.ReadReq{Size: 1, SrcSTag: b.mr.RKey() + 0x100, SrcTO: base})
		},
			wire.RDMAPInvalidSTag, ib.WCWRFlushErr, ib.EventQPAccessErr},
		{"READ past the region", func(b *end) []byte {
			return readSegment(wire.ReadReq{Size: 2, SrcSTag: b.mr.RKey(), SrcTO: base + memBytes - 1})
		},
			wire.RDMAPBounds, ib.WCWRFlushErr, ib.EventQPAccessErr},
		{"READ round the end of addresses", func(b *end) []byte {
			return readSegment(wire.ReadReq{Size: 2, SrcSTag: b.mr.RKey(), SrcTO: ^uint64(0)})
		},
			wire.RDMAPTOWrap, ib.WCWRFlushErr, ib.EventQPAccessErr},
		{"atomic of a word that is not aligned", func(b *end) []byte { return atomicSegment(wire.AtomicReq{STag: b.mr.RKey(), TO: base + 4}) },
			wire.RDMAPCatastrophicStream, ib.WCWRFlushErr, ib.EventQPAccessErr},
		{"atomic that there is none of", func(b *end) []byte { return atomicSegment(wire.AtomicReq{Op: 1, STag: b.mr.RKey(), TO: base}) },
			wire.RDMAPUnexpectedOpcode, ib.WCWRFlushErr, ib.EventQPAccessErr},
		{"no room for the control bytes", func(b *end) []byte { return wire.AppendFPDU(nil, []byte{0x41}, true) },
			wire.MPAMarkerMismatch, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"no room for the header", func(b *end) []byte { return wire.AppendFPDU(nil, append([]byte{0x41, 0x43}, hundred[:15]...), true) },
			wire.MPAMarkerMismatch, ib.WCWRFlushErr, ib.EventQPReqErr},
		{"an empty FPDU, and no RTR is due", func(b *end) []byte { return wire.AppendFPDU(nil, nil, true) },
			wire.MPAMarkerMismatch, ib.WCWRFlushErr, ib.EventQPReqErr},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, chunk := range map[string]func(int) int{"whole": whole, "single": func(int) int { return 1 }} {
				_, b := pair(t)
				b.postRecv(9, b.sge(0, 50))
				b.take(c.bytes(b), chunk, never)
				m := b.wantTerminate(c.want)
				b.wantRecv(name, 9, c.recv)
				b.wantEvent(name, c.event)
				if wantHeaders := c.want.Layer != wire.LayerLLP; m.HasDDP != wantHeaders || m.HasLength != wantHeaders {
					t.Errorf("%s: %+v", name, m)
				}
				if c.want.Layer == wire.LayerRDMAP && m.DDP.Opcode == wire.ReadRequest && c.want.Type == 1 && !m.HasRead {
					t.Errorf("%s: the READ request is not in it", name)
				}
				b.take(segment(untaggedH(wire.Send, true, 0, 1, 0), 1), whole, never)
				b.wantQuiet("after its Terminate it does not listen")
				b.freed()
				b.wantUntouched("nothing is placed past it", 50, memBytes-50-2)
			}
		})
	}
}

func readSegment(r wire.ReadReq) []byte {
	return segment(untaggedH(wire.ReadRequest, true, wire.QNRequest, 1, 0), r.Append(nil)...)
}

func atomicSegment(r wire.AtomicReq) []byte {
	return segment(untaggedH(wire.AtomicRequest, true, wire.QNRequest, 1, 0), r.Append(nil)...)
}

// TestRights: the queue pair, or the key, does not permit the request.
func TestRights(t *testing.T) {
	local := ib.AccessLocalWrite
	for _, c := range []struct {
		name  string
		bytes func(b *end) []byte
	}{
		{"WRITE", func(b *end) []byte { return segment(tagged(wire.RDMAWrite, true, b.mr.RKey(), base), 1) }},
		{"READ", func(b *end) []byte { return readSegment(wire.ReadReq{Size: 1, SrcSTag: b.mr.RKey(), SrcTO: base}) }},
		{"atomic", func(b *end) []byte { return atomicSegment(wire.AtomicReq{STag: b.mr.RKey(), TO: base}) }},
	} {
		_, b := pair(t, func(o *options) { o.access = local }) // neither
		b.take(c.bytes(b), whole, never)
		b.wantTerminate(wire.RDMAPAccess)

		_, b = pair(t, func(o *options) { o.access = local }) // the key does not
		b.s.Modify(0, &ib.QPAttr{AccessFlags: allAccess}, ib.QPAccessFlags)
		b.take(c.bytes(b), whole, never)
		b.wantTerminate(wire.RDMAPAccess)

		_, b = pair(t) // the queue pair does not
		b.s.Modify(0, &ib.QPAttr{AccessFlags: local}, ib.QPAccessFlags)
		b.take(c.bytes(b), whole, never)
		b.wantTerminate(wire.RDMAPAccess)
		b.wantUntouched(c.name, 0, 16)
	}
}

// TestOtherDomain: a key of another protection domain.
func TestOtherDomain(t *testing.T) {
	for want, make := range map[wire.TermError]func(k ib.RKey) []byte{
		wire.DDPNotAssociated:   func(k ib.RKey) []byte { return segment(tagged(wire.RDMAWrite, true, k, base), 1) },
		wire.RDMAPNotAssociated: func(k ib.RKey) []byte { return readSegment(wire.ReadReq{Size: 1, SrcSTag: k, SrcTO: base}) },
	} {
		_, b := pair(t)
		other, err := b.table.Register(pd+1, b.bytes, base, allAccess)
		if err != nil {
			t.Fatal(err)
		}
		b.take(make(other.RKey()), whole, never)
		b.wantTerminate(want)
	}
}

// TestSharedReceivesDomain: shared receives are judged by the domain of their queue.
func TestSharedReceivesDomain(t *testing.T) {
	for _, shared := range []bool{true, false} {
		a, b := pair(t, func(o *options) { o.srqPD = pd + 1 })
		other, err := b.table.Register(pd+1, b.bytes, base, ib.AccessLocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		g, want := b.sge(0, 100), ib.WCLocProtErr
		if shared {
			g.LKey, want = other.LKey(), ib.WCSuccess
		}
		b.postRecv(1, g)
		a.post(a.send(200, 10))
		carry(a, b)
		b.wantRecv("SEND", 1, want)
	}
}

// TestMessagesOfNoBytes look at no key: zero-length WRITE and READ, whatever
// their STag (siw: "must not be checked").
func TestMessagesOfNoBytes(t *testing.T) {
	a, b := pair(t, func(o *options) { o.access = ib.AccessLocalWrite })
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		a.nothing = true
		a.post(queue.SendWQE{Opcode: op})
		if !a.s.PollOutput(0, a.burst) {
			t.Fatal("nothing is sent")
		}
		u := ulpdus(t, bytes.Join(a.burst.Iov(), nil), true)
		h, payload, _ := wire.ParseHeader(u[0])
		if r, _, _ := wire.ParseReadReq(payload); op == ib.WRRDMAWrite && h.STag != 1 || op == ib.WRRDMARead && (r.SinkSTag != 1 || r.SrcSTag != 1) {
			t.Errorf("%v: STags %v %+v: never 0 (zrlio/softiwarp#17, #21)", op, h.STag, r)
		}
		for _, p := range a.burst.Iov() {
			a.out = append(a.out, p...)
		}
		a.s.HandleWritten(0, a.burst.Bytes())
		a.burst.Reset()
		a.nothing = false
		carry(a, b)
	}
	a.wantWC("WRITE", 1, ib.WCSuccess)
	a.wantWC("READ", 2, ib.WCSuccess)
	b.wantQuiet("done")
}

// TestRTRHasNoSTagZero: siw gives 1 where it need not be checked.
func TestRTRHasNoSTagZero(t *testing.T) {
	for _, k := range []mpa.RTR{mpa.RTRWrite, mpa.RTRRead, mpa.RTREmpty} {
		a, _ := pair(t, func(o *options) { o.rtr = k })
		a.pump()
		u := ulpdus(t, a.out, true)
		if len(u) != 1 {
			t.Fatalf("%v: %d segments", k, len(u))
		}
		h, payload, ok := wire.ParseHeader(u[0])
		r, _, _ := wire.ParseReadReq(payload)
		switch k {
		case mpa.RTREmpty:
			ok = len(u[0]) == 0
		case mpa.RTRWrite:
			ok = ok && h.Opcode == wire.RDMAWrite && h.Last && h.STag == 1 && len(payload) == 0
		case mpa.RTRRead:
			ok = ok && h.Opcode == wire.ReadRequest && h.MSN == 1 && r.SinkSTag == 1 && r.SrcSTag == 1 && r.Size == 0
		}
		if !ok {
			t.Errorf("%v: %v %+v", k, h, r)
		}
	}
}

// TestBadRead ends with the right word on both sides.
func TestBadRead(t *testing.T) {
	a, b := pair(t)
	a.postRecv(50, a.sge(0, 10))
	good, bad := a.read(0, 100, b, 0), a.read(0, 100, b, 0)
	bad.RKey += 0x100
	a.post(good, bad, a.send(0, 10))
	carry(a, b)
	a.wantWC("before", 1, ib.WCSuccess)
	if wc := a.wantWC("the bad one", 2, ib.WCRemAccessErr); wc.VendorErr != ib.VendorNAKAccess {
		t.Errorf("%v", wc.VendorErr)
	}
	a.wantWC("behind", 3, ib.WCWRFlushErr)
	a.wantRecv("receive", 50, ib.WCWRFlushErr)
	a.wantState("told", ib.QPErr)
	b.wantState("found", ib.QPErr)
	b.wantEvent("found", ib.EventQPAccessErr)
	a.wantEvent("told", ib.EventQPFatal)
	if a.s.Counters()[RcvdTerminate] != 1 || a.s.Counters()[SwappedTerminate] != 0 || b.s.Counters()[SentTerminate] != 1 {
		t.Error("counters")
	}
	if a.s.Closing() != Shut || b.s.Closing() != Shut {
		t.Errorf("closing %d, %d", a.s.Closing(), b.s.Closing())
	}
	a.post(a.send(0, 1))
	a.wantWC("posted after", 4, ib.WCWRFlushErr)
}

// TestNoReceive: there is no RNR in iWARP.
func TestNoReceive(t *testing.T) {
	a, b := pair(t)
	a.post(a.send(0, 10), a.read(0, 10, b, 0))
	b.take(a.out, whole, never)
	a.out = nil
	m := b.wantTerminate(wire.DDPNoBuffer)
	if m.DDP.MSN != 1 || m.DDP.Opcode != wire.Send {
		t.Errorf("%+v", m)
	}
	a.wantWC("it was out", 1, ib.WCSuccess)
}

// TestTooManyReads: the peer asks for more READs at a time than agreed on.
func TestTooManyReads(t *testing.T) {
	_, b := pair(t, func(o *options) { o.ird = 2 })
	b.nothing = true
	for msn := range uint32(3) {
		r := wire.ReadReq{Size: 1, SrcSTag: b.mr.RKey(), SrcTO: base}
		b.take(segment(untaggedH(wire.ReadRequest, true, wire.QNRequest, msn+1, 0), r.Append(nil)...), whole, never)
	}
	b.nothing = false
	b.wantTerminate(wire.DDPNoBuffer)
}

// TestBadCRC changes nothing but a counter, and ends the stream.
func TestBadCRC(t *testing.T) {
	for name, s := range map[string]func(b *end) []byte{
		"SEND":      func(b *end) []byte { return segment(untaggedH(wire.Send, true, 0, 1, 0), 1, 2, 3) },
		"no key":    func(b *end) []byte { return segment(tagged(wire.RDMAWrite, true, 77, base), 1) }, // the CRC's word counts
		"READ":      func(b *end) []byte { return readSegment(wire.ReadReq{Size: 1, SrcSTag: b.mr.RKey(), SrcTO: base}) },
		"atomic":    func(b *end) []byte { return atomicSegment(wire.AtomicReq{STag: b.mr.RKey(), TO: base, AddSwap: 1}) },
		"Terminate": func(b *end) []byte { return segment(untaggedH(wire.Terminate, true, 2, 1, 0), 0, 0, 0, 0) },
	} {
		_, b := pair(t)
		b.postRecv(9, b.sge(0, 50))
		bad := s(b)
		bad[len(bad)-1] ^= 1
		b.take(bad, whole, never)
		if m := b.wantTerminate(wire.MPACRCError); m.HasDDP || m.HasLength {
			t.Errorf("%s: %+v", name, m)
		}
		b.wantRecv(name, 9, ib.WCWRFlushErr)
		if c := b.s.Counters(); c[BadCRCs] != 1 || c[RcvdSegments] != 0 || c[RcvdTerminate] != 0 {
			t.Errorf("%s: %v", name, c)
		}
		b.wantUntouched(name, 50, 5000)
	}
}

// TestBadReadResponses: the peer's response does not fit the request.
func TestBadReadResponses(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes func(a *end) []byte
		want  wire.TermError
	}{
		{"to another place", func(a *end) []byte { return segment(tagged(wire.ReadResponse, false, a.mr.RKey(), base+1), 1) }, wire.DDPBounds},
		{"to another key", func(a *end) []byte { return segment(tagged(wire.ReadResponse, false, a.mr.RKey()+0x100, base), 1) }, wire.DDPInvalidSTag},
		{"too short", func(a *end) []byte { return segment(tagged(wire.ReadResponse, true, a.mr.RKey(), base), 1, 2, 3) }, wire.DDPBounds},
		{"too long", func(a *end) []byte {
			return segment(tagged(wire.ReadResponse, true, a.mr.RKey(), base), make([]byte, 11)...)
		}, wire.DDPBounds},
		{"without an end", func(a *end) []byte {
			return segment(tagged(wire.ReadResponse, false, a.mr.RKey(), base), make([]byte, 10)...)
		}, wire.DDPBounds},
	} {
		a, b := pair(t)
		a.post(a.read(0, 10, b, 0), a.send(0, 1))
		a.out = nil
		a.take(c.bytes(a), whole, never)
		a.wantTerminate(c.want)
		a.wantWC(c.name, 1, ib.WCBadRespErr)
		a.wantWC(c.name, 2, ib.WCWRFlushErr)
		a.wantUntouched(c.name, 0, 100)
	}
	a, b := pair(t)
	a.post(a.fadd(0, b, 64, 1))
	a.out = nil
	a.take(segment(untaggedH(wire.AtomicResponse, true, 3, 1, 0), wire.AtomicResp{ID: 5}.Append(nil)...), whole, never)
	a.wantTerminate(wire.RDMAPUnspecific)
	a.wantWC("another atomic's", 1, ib.WCBadRespErr)
}

// TestLocalFaults: a work request that cannot be sent fails in its turn, and
// the peer learns that no more comes.
func TestLocalFaults(t *testing.T) {
	for name, change := range map[string]func(w *queue.SendWQE){
		"SEND":  func(w *queue.SendWQE) { w.Opcode = ib.WRSend },
		"WRITE": func(w *queue.SendWQE) { w.Opcode = ib.WRRDMAWrite },
		"READ":  func(w *queue.SendWQE) { w.Opcode = ib.WRRDMARead },
	} {
		a, b := pair(t)
		w := a.send(0, 10)
		change(&w)
		w.SGE[0].LKey += 0x100
		a.post(a.read(100, 10, b, 0), w, a.send(0, 1))
		a.pump()
		if len(a.sends.list) > 0 {
			t.Fatalf("%s: failed before what is older", name)
		}
		carry(a, b)
		a.wantWC(name, 1, ib.WCSuccess)
		a.wantWC(name, 2, ib.WCLocProtErr)
		a.wantWC(name, 3, ib.WCWRFlushErr)
		a.wantEvent(name, ib.EventQPFatal)
		b.wantState(name, ib.QPErr)
		if b.s.Counters()[RcvdTerminate] != 1 {
			t.Errorf("%s: the peer was not told", name)
		}
	}
}

// TestShortAtomic: an atomic is of 8 bytes.
func TestShortAtomic(t *testing.T) {
	a, b := pair(t)
	w := a.fadd(0, b, 0, 1)
	w.SGE[0].Length, w.Length = 4, 4
	a.post(w)
	carry(a, b)
	a.wantWC("of 4 bytes", 1, ib.WCLocLenErr)
	b.wantUntouched("the word", 0, 8)
}

// TestKeyGoesMidway: a WRITE's and a READ's key are voided between segments.
func TestKeyGoesMidway(t *testing.T) {
	a, b := pair(t)
	a.nothing = true
	a.post(a.write(0, 5000, b, 0))
	a.s.PollOutput(0, a.burst)
	s := bytes.Join(a.burst.Iov(), nil)
	b.take(s[:2000], whole, always)
	if err := b.table.Deregister(b.mr); err != nil {
		t.Fatal(err)
	}
	b.take(s[2000:], whole, always)
	b.wantTerminate(wire.DDPInvalidSTag)
	b.wantUntouched("placed after it was gone", 2000, 3000)

	a, b = pair(t)
	b.nothing = true
	a.post(a.read(0, 100, b, 0), a.read(0, 5000, b, 0))
	b.take(a.out, whole, never)
	a.out = nil
	if err := b.table.Deregister(b.mr); err != nil {
		t.Fatal(err)
	}
	b.nothing = false
	m := b.wantTerminate(wire.RDMAPInvalidSTag)
	if !m.HasRead || m.DDP.MSN != 1 || m.Read.Size != 100 {
		t.Errorf("%+v", m)
	}
}

// TestReceiveMemoryGoes is the receiver's own fault.
func TestReceiveMemoryGoes(t *testing.T) {
	a, b := pair(t)
	b.postRecv(1, b.sge(0, 100))
	if err := b.table.Deregister(b.mr); err != nil {
		t.Fatal(err)
	}
	a.post(a.send(0, 10))
	b.take(a.out, whole, never)
	b.wantTerminate(wire.RDMAPLocalCatastrophic)
	b.wantRecv("gone", 1, ib.WCLocProtErr)
	b.wantEvent("gone", ib.EventQPFatal)
}

// TestSiwsTerminates plays siw's recorded Terminates, nibbles swapped, to the side that got them:
// the bad READ fails, completed requests stay so.
func TestSiwsTerminates(t *testing.T) {
	seen := 0
	for _, c := range stream.LoadAll(t, "../../../testdata/captures") {
		_, rest, ok := wire.ParseMPAFrame(c.Sent[1])
		if !ok || len(rest) == 0 {
			continue
		}
		u := ulpdus(t, rest, false)
		h, _, _ := wire.ParseHeader(u[len(u)-1])
		if h.Opcode != wire.Terminate {
			continue
		}
		seen++
		a, b := pair(t, func(o *options) { o.crc = false })
		a.post(a.read(0, 3000, b, 0))
		a.out = nil
		m, _, _ := wire.ParseTermMsg(u[len(u)-1][wire.UntaggedBytes:])
		want := ib.WCWRFlushErr
		if m.HasRead { // it names the READ by its sink; its number is wrong
			if m.DDP.MSN != m.Read.Size {
				t.Errorf("%s: %+v", c.Name, m)
			}
			m.Read.SinkSTag, m.Read.SinkTO = a.mr.RKey(), base
			want = ib.WCRemAccessErr
		}
		a.take(wire.AppendFPDU(nil, m.Append(h.Append(nil)), false), whole, never)
		a.wantState(c.Name, ib.QPErr)
		a.wantWC(c.Name, 1, want)
		if a.s.Counters()[SwappedTerminate] != 1 {
			t.Errorf("%s: not counted as swapped", c.Name)
		}
		a.wantQuiet(c.Name)
	}
	if seen != 6 {
		t.Errorf("%d Terminates", seen)
	}
}

// TestWhatEveryTerminateMeans: the READ that a Terminate names fails with the peer's error. Those
// before and behind it are flushed.
func TestWhatEveryTerminateMeans(t *testing.T) {
	for status, list := range map[ib.WCStatus][]wire.TermError{
		ib.WCRemAccessErr: {wire.RDMAPInvalidSTag, wire.RDMAPBounds, wire.RDMAPAccess, wire.RDMAPNotAssociated, wire.RDMAPTOWrap,
			wire.RDMAPCannotInvalidate, wire.DDPInvalidSTag, wire.DDPBounds, wire.DDPNotAssociated, wire.DDPTOWrap},
		ib.WCRemInvReqErr: {wire.RDMAPVersionInvalid, wire.RDMAPUnexpectedOpcode, wire.DDPTaggedVersionInvalid, wire.DDPUntaggedVersionInvalid,
			wire.DDPInvalidQN, wire.DDPInvalidMSN, wire.DDPInvalidMO, wire.DDPTooLong},
		ib.WCRemOpErr: {wire.RDMAPLocalCatastrophic, wire.RDMAPCatastrophicStream, wire.RDMAPUnspecific, wire.DDPLocalCatastrophic,
			wire.DDPNoBuffer, wire.MPACRCError, wire.MPAMarkerMismatch, wire.MPACatastrophic, {Layer: 2, Type: 9, Code: 99}, {Layer: 15}},
	} {
		for _, e := range list {
			a, b := pair(t)
			a.post(a.read(0, 10, b, 0), a.read(0, 10, b, 0), a.send(0, 10))
			m := wire.TermMsg{TermError: e, HasLength: true, SegmentBytes: 46, HasDDP: true, DDP: untaggedH(wire.ReadRequest, true, wire.QNRequest, 2, 0)}
			a.out = nil
			a.take(segment(untaggedH(wire.Terminate, true, wire.QNTerminate, 1, 0), m.Append(nil)...), whole, never)
			a.wantWC(e.String(), 1, ib.WCWRFlushErr)
			a.wantWC(e.String(), 2, status)
			a.wantWC(e.String(), 3, ib.WCWRFlushErr)
			a.wantEvent(e.String(), ib.EventQPFatal)
			a.wantQuiet("a Terminate is not answered")

			// One that names nothing says no more than that it is over.
			a, b = pair(t)
			a.post(a.read(0, 10, b, 0))
			a.out = nil
			a.take(segment(untaggedH(wire.Terminate, true, wire.QNTerminate, 1, 0), wire.TermMsg{TermError: e}.Append(nil)...), whole, never)
			a.wantWC(e.String(), 1, ib.WCWRFlushErr)
		}
	}
}

// TestMalformedTerminate ends the stream like any other.
func TestMalformedTerminate(t *testing.T) {
	for _, payload := range [][]byte{nil, {0}, {0, 0, 0xe0, 0}, make([]byte, 300), bytes.Repeat([]byte{0xff}, 60)} {
		a, b := pair(t)
		a.post(a.read(0, 10, b, 0))
		a.out = nil
		a.take(segment(untaggedH(wire.Terminate, true, 2, 1, 0), payload...), whole, always)
		a.wantState("a Terminate is a Terminate", ib.QPErr)
		a.wantWC("READ", 1, ib.WCWRFlushErr)
		a.wantQuiet("nothing answers a Terminate")
		a.wantUntouched("it is not placed", 0, 1000)
	}
}

func readOfAll(b *end) wire.ReadReq {
	return wire.ReadReq{SinkSTag: 9, Size: memBytes, SrcSTag: b.mr.RKey(), SrcTO: base}
}
