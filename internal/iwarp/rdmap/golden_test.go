// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/mem"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/testkit/stream"
	wire "verbena/internal/wire/iwarp"
)

// The captures of siw as golden input: our machine plays one end of a recorded connection. The work
// that the recorded end must have posted is posted, and the other end's packets come as recorded.
// Our machine's packets are compared with the recorded ones, message by message: segments may be
// cut otherwise. Keys that the recorded end granted are exchanged for ours on the way in.

// message is the segments of one message.
type message struct {
	wire.Header // of the first segment
	payload     []byte
}

func messages(ulpdus [][]byte) (all []message) {
	open := false
	for _, u := range ulpdus {
		h, payload, _ := wire.ParseHeader(u)
		if !open {
			all = append(all, message{Header: h})
		}
		m := &all[len(all)-1]
		m.payload = append(m.payload, payload...)
		open = !h.Last
	}
	return all
}

// of returns those of some opcodes.
func of(all []message, want func(wire.Opcode) bool) []message {
	return slices.DeleteFunc(slices.Clone(all), func(m message) bool { return !want(m.Opcode) })
}

func requests(o wire.Opcode) bool {
	return o.IsSend() || o == wire.RDMAWrite || o == wire.ReadRequest
}
func readResponses(o wire.Opcode) bool { return o == wire.ReadResponse }
func terminates(o wire.Opcode) bool    { return o == wire.Terminate }
func invalidates(o wire.Opcode) bool   { return o.Info().Invalidates }

// granted is a region of the recorded end, and ours in its place.
type granted struct {
	from, to uint64
	bytes    []byte
	key      ib.RKey
}

func (g *granted) cover(at uint64, n int) {
	if g.to == 0 {
		g.from, g.to = at, at
	}
	g.from, g.to = min(g.from, at), max(g.to, at+uint64(n))
}

func (g *granted) at(to uint64, n int) []byte { return g.bytes[to-g.from:][:n] }

// actor plays one end of a recorded connection.
type actor struct {
	*end
	mine, theirs []message
	refused      wire.TermMsg // the Terminate message of the recorded end, if any
	grants       map[ib.RKey]*granted
}

const (
	goldenDepth     = 256
	sourceBase      = 0x1000
	receiveBase     = 1 << 50
	largestReceived = 1 << 17
)

func newActor(t *testing.T, mine, theirs [][]byte, initiator bool) *actor {
	p := &actor{end: &end{t: t, name: "ours", burst: mpa.NewBurst(), sq: queue.NewSendQueue(goldenDepth, 1, 0), rq: queue.NewRecvQueue(goldenDepth, 1)},
		mine: messages(mine), theirs: messages(theirs), grants: map[ib.RKey]*granted{}}
	seed := uint32(1)
	p.table = mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	if last := of(p.mine, terminates); len(last) > 0 {
		p.refused, _, _ = wire.ParseTermMsg(last[0].payload)
	}
	p.grant()
	p.s = NewStream(qp.Config{QPN: 0x11, PD: pd, Mem: p.table, SQ: p.sq, RQ: p.rq, SendCQ: &p.sends, RecvCQ: &p.recvs, SignalAll: true})
	p.s.Connect(mpa.Settled{}, initiator, false, 1460)
	attr := ib.QPAttr{AccessFlags: allAccess, MaxRdAtomic: 255, MaxDestRdAtomic: 255}
	for _, s := range []ib.QPState{ib.QPInit, ib.QPRTR, ib.QPRTS} {
		attr.State = s
		p.s.Modify(0, &attr, ib.QPStateAttr|ib.QPAccessFlags|ib.QPMaxQPRdAtomic|ib.QPMaxDestRdAtomic)
	}
	return p
}

// grant registers all memory of the recorded end: the memory that the peer reached, and that which
// READs filled. Memory of refused requests was not there, or one byte short.
func (p *actor) grant() {
	cover := func(key ib.RKey, at uint64, n int) {
		if n == 0 {
			return
		}
		if bad := p.refused.HasDDP && p.refuses(key); bad && p.refused.Code != wire.DDPBounds.Code {
			return
		} else if bad {
			n--
		}
		if p.grants[key] == nil {
			p.grants[key] = &granted{}
		}
		p.grants[key].cover(at, n)
	}
	for _, m := range p.theirs {
		switch m.Opcode {
		case wire.RDMAWrite:
			cover(m.STag, m.TO, len(m.payload))
		case wire.ReadRequest:
			r, _, _ := wire.ParseReadReq(m.payload)
			cover(r.SrcSTag, r.SrcTO, int(r.Size))
		}
	}
	for _, m := range of(p.mine, func(o wire.Opcode) bool { return o == wire.ReadRequest }) {
		r, _, _ := wire.ParseReadReq(m.payload)
		cover(r.SinkSTag, r.SinkTO, int(r.Size))
	}
	for _, m := range of(p.theirs, invalidates) {
		if p.grants[m.STag] == nil {
			p.grants[m.STag] = &granted{from: base, to: base + 1}
		}
	}
	for _, g := range p.grants { // fast-registered, so that the peer may invalidate them
		g.bytes = bytes.Repeat([]byte{untouched}, int(g.to-g.from))
		r, err := p.table.AllocFast(pd, 1)
		if err == nil {
			_, err = r.Map([][]byte{g.bytes}, g.from)
		}
		if err != nil {
			p.t.Fatal(err)
		}
		if v := p.table.FastRegister(pd, r, r.RKey(), allAccess&^ib.AccessMWBind); v != ib.VendorNone {
			p.t.Fatal(v)
		}
		g.key = r.RKey()
	}
}

// refuses reports whether the recorded end refused an access with a key.
func (p *actor) refuses(key ib.RKey) bool {
	if p.refused.DDP.Tagged {
		return p.refused.DDP.STag == key
	}
	return p.refused.HasRead && p.refused.Read.SrcSTag == key
}

// ours returns our key in the place of one that the recorded end granted.
func (p *actor) ours(key ib.RKey) ib.RKey {
	if g := p.grants[key]; g != nil {
		return g.key
	}
	return key
}

// postAll posts the work of the recorded end.
func (p *actor) postAll() {
	var source []byte
	for _, m := range p.mine {
		source = append(source, m.payload...)
	}
	from, err := p.table.Register(pd, append(source, 0), sourceBase, allAccess)
	if err != nil {
		p.t.Fatal(err)
	}
	inbox, err := p.table.Register(pd, make([]byte, largestReceived), receiveBase, allAccess)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mr, p.bytes = inbox, nil
	sends := of(p.theirs, wire.Opcode.IsSend)
	if p.refused.TermError == wire.DDPNoBuffer {
		sends = sends[:len(sends)-1] // the refused SEND found no receive, or a shorter one
	}
	for i := range sends {
		p.postRecv(uint64(i), ib.SGE{Addr: receiveBase, Length: largestReceived, LKey: inbox.LKey()})
	}
	at := uint64(sourceBase)
	for _, m := range p.mine {
		n := uint32(len(m.payload))
		w := queue.SendWQE{Opcode: ib.WRSend, Length: n, SGE: []ib.SGE{{Addr: at, Length: n, LKey: from.LKey()}}}
		at += uint64(n)
		switch m.Opcode {
		case wire.RDMAWrite:
			w.Opcode, w.RemoteAddr, w.RKey = ib.WRRDMAWrite, m.TO, m.STag
		case wire.SendInvalidate, wire.SendSEInvalidate:
			w.Opcode, w.InvalidateKey = ib.WRSendWithInv, m.STag
		case wire.Send, wire.SendSE:
		case wire.ReadRequest:
			r, _, _ := wire.ParseReadReq(m.payload)
			w.Opcode, w.RemoteAddr, w.RKey, w.Length = ib.WRRDMARead, r.SrcTO, r.SrcSTag, r.Size
			w.SGE = []ib.SGE{{Addr: r.SinkTO, Length: r.Size, LKey: ib.LKey(p.ours(r.SinkSTag))}}
		default:
			continue
		}
		if m.Opcode == wire.SendSE || m.Opcode == wire.SendSEInvalidate {
			w.Flags = ib.SendSolicited
		}
		p.post(w)
	}
}

// hear takes a segment that the other end sent.
func (p *actor) hear(ulpdu []byte, answer func() []byte) {
	h, payload, _ := wire.ParseHeader(ulpdu)
	if h.Tagged || h.Opcode.Info().Invalidates {
		h.STag = p.ours(h.STag)
	}
	if r, _, ok := wire.ParseReadReq(payload); ok && h.Opcode == wire.ReadRequest {
		if g := p.grants[r.SrcSTag]; g != nil && r.Size > 0 {
			copy(g.at(r.SrcTO, int(r.Size)), answer()) // the recorded end's bytes
		}
		r.SrcSTag = p.ours(r.SrcSTag)
		payload = r.Append(nil)
	}
	p.take(wire.AppendFPDU(nil, append(h.Append(nil), payload...), false), whole, never)
}

// arrived checks that a message's bytes are in place.
func (p *actor) arrived(m message, received int) (next int) {
	p.t.Helper()
	switch g := p.grants[m.STag]; {
	case m.Opcode.IsSend():
		if len(p.recvs.list) != received+1 {
			return received // refused
		}
		wc := p.recvs.list[received]
		if wc.Status != ib.WCSuccess || int(wc.ByteLen) != len(m.payload) || p.recvs.solicited[received] != m.Opcode.Info().Solicited {
			p.t.Errorf("a SEND of %d bytes is received as %+v", len(m.payload), wc)
		}
		if inv := m.Opcode.Info().Invalidates; inv != (wc.Flags&ib.WCWithInv != 0) || inv && wc.InvalidatedRKey != p.ours(m.STag) {
			p.t.Errorf("%v: %+v", m.Opcode, wc)
		}
		return received + 1
	case m.Tagged && g != nil && m.TO+uint64(len(m.payload)) <= g.to:
		if !bytes.Equal(g.at(m.TO, len(m.payload)), m.payload) {
			p.t.Errorf("%v of %d bytes to %#x is not in place", m.Opcode, len(m.payload), m.TO)
		}
	}
	return received
}

// wantSame compares messages, but for keys of ours.
func (p *actor) wantSame(what string, got, want []message) {
	p.t.Helper()
	if len(got) != len(want) {
		p.t.Errorf("%s: %d sent, %d recorded", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		w := want[i]
		if r, _, ok := wire.ParseReadReq(w.payload); ok && w.Opcode == wire.ReadRequest {
			r.SinkSTag = p.ours(r.SinkSTag)
			w.payload = r.Append(nil)
		}
		g := got[i]
		g.Last, w.Last = true, true // of the first segment
		if g.Header != w.Header || !bytes.Equal(g.payload, w.payload) {
			p.t.Errorf("%s %d: %+v %s\nwant %+v %s", what, i, g.Header, head(g.payload), w.Header, head(w.payload))
		}
	}
}

func head(b []byte) string { return hex.EncodeToString(b[:min(len(b), 48)]) }

// TestGolden plays each end of every connection that was captured whole.
func TestGolden(t *testing.T) {
	played := 0
	for _, c := range stream.LoadAll(t, "../../../testdata/captures") {
		var sent [2][][]byte
		whole := true
		for side, b := range c.Sent {
			f, rest, ok := wire.ParseMPAFrame(b)
			whole = whole && ok && !f.Reject && !c.Missing[side]
			if whole {
				sent[side] = ulpdus(t, rest, false)
			}
		}
		if !whole {
			continue
		}
		for side, name := range []string{"client", "server"} {
			played++
			t.Run(c.Name+" "+name, func(t *testing.T) { playGolden(t, sent[side], sent[1-side], side == 0) })
		}
	}
	if played < 46 {
		t.Errorf("%d ends played: too few", played)
	}
}

func playGolden(t *testing.T, mine, theirs [][]byte, initiator bool) {
	p := newActor(t, mine, theirs, initiator)
	p.postAll()
	answers := of(p.mine, readResponses)
	heard, received := 0, 0
	for _, u := range theirs {
		p.hear(u, func() (b []byte) {
			if len(answers) > 0 {
				b, answers = answers[0].payload, answers[1:]
			}
			return b
		})
		if h, _, _ := wire.ParseHeader(u); h.Last {
			received = p.arrived(p.theirs[heard], received)
			heard++
		}
	}
	p.pump()
	got := messages(ulpdus(t, p.out, false))
	p.wantSame("request", of(got, requests), of(p.mine, requests))
	responses := of(got, readResponses)
	if strings.Contains(t.Name(), "stall-first-read") && !initiator { // siw overlooked the READ
		if len(responses) != 1 {
			t.Errorf("%d responses to the READ that siw did not answer", len(responses))
		}
		return
	}
	p.wantSame("READ response", responses, of(p.mine, readResponses))
	ends := of(got, terminates)
	if len(ends) != len(of(p.mine, terminates)) {
		t.Fatalf("%d Terminates", len(ends))
	}
	if len(ends) == 1 {
		m, _, _ := wire.ParseTermMsg(ends[0].payload)
		if m.TermError != p.refused.TermError || m.Swapped || m.DDP.Opcode != p.refused.DDP.Opcode || m.HasRead != p.refused.HasRead {
			t.Errorf("Terminate %+v, recorded %+v", m, p.refused)
		}
	}
}
