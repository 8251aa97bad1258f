// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"slices"
	"sync"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// tagCap is enough for the tests.
var tagCap = ib.TMAttr{MaxNumTags: 64, MaxOps: 16}

// matcher is an end whose shared receive queue matches tags.
type matcher struct {
	*end
	srq *verbs.SRQ
}

// newMatcher returns one connected with a new end. Its queue pair has as many send work requests of
// its own as sends says.
func newMatcher(t *testing.T, size int, sends uint32) (m *matcher, from *end) {
	t.Helper()
	m = &matcher{end: newEnd(t, ib.QPTypeRC, size)}
	var err error
	m.srq, err = m.pd.CreateTagSRQ(ib.SRQAttr{MaxWR: 64, MaxSGE: 1}, tagCap, m.cq)
	check(t, err)
	cq := m.cq
	m.end = m.sibling(func(a *verbs.QPInitAttr) { // RecvCQ gets nothing
		a.SRQ, a.SendCQ, a.Cap.MaxSendWR = m.srq, cq, sends
	})
	m.cq = cq
	from = newEnd(t, ib.QPTypeRC, size)
	connect(t, from, m.end, ib.MTU1024)
	return m, from
}

// add adds a tagged receive of n bytes at off, and returns its handle.
func (m *matcher) add(id, tag uint64, off, n int) uint32 {
	m.t.Helper()
	op := []ib.TagWR{{Opcode: ib.TagAdd, RecvID: id, Tag: tag, Mask: 1<<64 - 1, SGList: []ib.SGE{m.mr.SGE(off, n)}}}
	_, err := m.srq.PostOps(op...)
	check(m.t, err)
	return op[0].Handle
}

// unexpected posts a receive of 100 bytes at off for a message without a match.
func (m *matcher) unexpected(id uint64, off int) {
	m.t.Helper()
	_, err := m.srq.PostRecv(verbs.RecvWR{ID: id, SGList: []ib.SGE{m.mr.SGE(off, 100)}})
	check(m.t, err)
}

func (m *matcher) want(why string, id uint64, op ib.WCOpcode, flags ib.WCFlags, n int, info ib.TMInfo) {
	m.t.Helper()
	wc := m.one()
	if wc.WRID != id || wc.Opcode != op || wc.Flags != flags || int(wc.ByteLen) != n || wc.TMInfo() != info {
		m.t.Fatalf("%s: %+v", why, wc)
	}
}

// deliver sends bytes, by way of the front of the end's memory.
func (e *end) deliver(b []byte) {
	e.t.Helper()
	copy(e.buf, b)
	wantStatus(e.t, e.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{e.mr.SGE(0, len(b))}}).Status, ib.WCSuccess)
}

func TestTagMatching(t *testing.T) { onBothPaths(t, tagMatching) }

func tagMatching(t *testing.T) {
	const size = 1 << 16
	m, from := newMatcher(t, size, 0)
	h := ib.TMH{Op: ib.TMEager, AppCtx: 0x89abcdef, Tag: 0x8765432112345678}
	both, info := ib.WCTMMatch|ib.WCTMDataValid, ib.TMInfo{Tag: h.Tag, Priv: h.AppCtx}
	m.unexpected(100, 60000)
	m.unexpected(101, 61000)
	m.add(1, h.Tag, 0, 5000)
	m.add(2, h.Tag, 10000, 5000)
	m.add(3, h.Tag, 20000, 30000)

	short := append(h.Append(nil), "expected"...)
	from.deliver(short)
	m.want("of one packet", 1, ib.WCTMRecv, both, 8, info)
	if got := m.buf[:8]; string(got) != "expected" {
		t.Errorf("%q", got)
	}
	long := make([]byte, 4000)
	pattern(long, 3)
	from.deliver(append(h.Append(nil), long...))
	// Within a host it comes in one piece. Else the match is reported first.
	match := m.one()
	if match.WRID != 2 || match.Flags&ib.WCTMMatch == 0 || match.TMInfo() != info {
		t.Fatalf("of several packets: %+v", match)
	}
	if match.Flags&ib.WCTMDataValid == 0 {
		m.want("of several packets, the data", 2, ib.WCTMRecv, ib.WCTMDataValid, len(long), ib.TMInfo{})
	} else if int(match.ByteLen) != len(long) {
		t.Errorf("of several packets: %+v", match)
	}
	if !bytes.Equal(m.buf[10000:14000], long) {
		t.Error("other data")
	}

	from.deliver([]byte{byte(ib.TMNoTag), 7})
	m.want("without a tag", 100, ib.WCTMNoTag, 0, 2, ib.TMInfo{})

	// A rendezvous: the data goes by READ, and the sender learns that it went.
	pattern(from.buf[1000:31000], 5)
	_, err := from.qp.PostRecv(verbs.RecvWR{ID: 9, SGList: []ib.SGE{from.mr.SGE(40000, 100)}})
	check(t, err)
	h.Op = ib.TMRendezvous
	from.deliver(ib.RVH{VA: from.mr.Addr() + 1000, RKey: from.mr.RKey(), Length: 30000}.Append(h.Append(nil)))
	m.want("rendezvous, the match", 3, ib.WCTMRecv, ib.WCTMMatch, 30000, info)
	m.want("rendezvous, the data", 3, ib.WCTMRecv, ib.WCTMDataValid, 30000, ib.TMInfo{})
	if !bytes.Equal(m.buf[20000:50000], from.buf[1000:31000]) {
		t.Error("other data")
	}
	h.Op = ib.TMFin
	if fin := from.one(); fin.WRID != 9 || fin.Opcode != ib.WCRecv || !bytes.Equal(from.buf[40000:40000+fin.ByteLen], h.Append(nil)) {
		t.Errorf("FIN %+v, %x", fin, from.buf[40000:40020])
	}

	// An unexpected message holds up what is added after it.
	from.deliver(short)
	m.want("unexpected", 101, ib.WCTMRecv, 0, len(short), ib.TMInfo{})
	if !bytes.Equal(m.buf[61000:61000+len(short)], short) {
		t.Error("an unexpected message lost its header")
	}
	_, err = m.srq.PostOps(ib.TagWR{ID: 50, Opcode: ib.TagAdd, Flags: ib.TagSignaled, RecvID: 4, Tag: h.Tag, Mask: 1<<64 - 1, SGList: []ib.SGE{m.mr.SGE(0, 100)}})
	check(t, err)
	m.want("added meanwhile", 50, ib.WCTMAdd, ib.WCTMSyncReq, 0, ib.TMInfo{})
	_, err = m.srq.PostOps(ib.TagWR{ID: 51, Opcode: ib.TagSync, Flags: ib.TagSignaled | ib.TagUnexpected, UnexpectedCnt: 1})
	check(t, err)
	m.want("in step", 51, ib.WCTMSync, 0, 0, ib.TMInfo{})
	from.deliver(short)
	m.want("expected again", 4, ib.WCTMRecv, both, 8, info)

	// A tag that was removed matches nothing, and can be removed once.
	gone := m.add(5, h.Tag, 0, 100)
	for i, want := range []ib.WCStatus{ib.WCSuccess, ib.WCTMErr} {
		_, err = m.srq.PostOps(ib.TagWR{ID: uint64(60 + i), Opcode: ib.TagDel, Flags: ib.TagSignaled, Handle: gone})
		check(t, err)
		if wc := m.poll(1)[0]; wc.WRID != uint64(60+i) || wc.Status != want {
			t.Errorf("removed: %+v", wc)
		}
	}
	m.unexpected(102, 60000)
	from.deliver(short)
	m.want("no more", 102, ib.WCTMRecv, 0, len(short), ib.TMInfo{})

	_, err = m.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend})
	wantError(t, err, syscall.EINVAL, "QP")
	m.add(6, 1, 0, 100) // lost with the queue
	wantError(t, m.srq.Destroy(), syscall.EBUSY, "SRQ")
	check(t, m.qp.Destroy())
	wantError(t, m.cq.Destroy(), syscall.EBUSY, "CQ")
	check(t, m.srq.Destroy())
	_, err = m.srq.PostOps(ib.TagWR{Opcode: ib.TagSync})
	wantError(t, err, syscall.EINVAL, "SRQ")
}

// A queue pair with sends of its own matches too. It does not READ: the application does.
func TestTagMatchingWithSends(t *testing.T) {
	m, from := newMatcher(t, 4096, 8)
	m.add(1, 7, 0, 1000)
	copy(from.buf[2000:], "the data")
	h := ib.TMH{Op: ib.TMRendezvous, AppCtx: 3, Tag: 7}
	headers := ib.RVH{VA: from.mr.Addr() + 2000, RKey: from.mr.RKey(), Length: 8}.Append(h.Append(nil))
	from.deliver(headers)
	wc := m.poll(1)[0]
	if wc.WRID != 1 || wc.Status != ib.WCTMRndvIncomplete || wc.Flags != ib.WCTMMatch|ib.WCTMDataValid || int(wc.ByteLen) != len(headers) {
		t.Fatalf("%+v", wc)
	}
	got, rest, _ := ib.ParseTMH(m.buf)
	v, _, _ := ib.ParseRVH(rest)
	if got != h || v.Length != 8 {
		t.Fatalf("%+v %+v", got, v)
	}
	wantStatus(t, m.post(verbs.SendWR{ID: 2, Opcode: ib.WRRDMARead, SGList: []ib.SGE{m.mr.SGE(1000, 8)}, RemoteAddr: v.VA, RKey: v.RKey}).Status, ib.WCSuccess)
	if got := m.buf[1000:1008]; string(got) != "the data" {
		t.Errorf("%q", got)
	}
	// The FIN of a peer that READ is for the application.
	m.unexpected(100, 2000)
	h.Op = ib.TMFin
	from.deliver(h.Append(nil))
	m.want("FIN", 100, ib.WCTMNoTag, 0, ib.TMHBytes, ib.TMInfo{})
}

// The completions of a queue pair's sends go with it. Those of its shared queue's receives stay.
func TestTagMatchingPurges(t *testing.T) {
	m, from := newMatcher(t, 4096, 8)
	_, err := from.qp.PostRecv(verbs.RecvWR{ID: 9, SGList: []ib.SGE{from.mr.SGE(0, 100)}})
	check(t, err)
	m.add(1, 7, 0, 100)
	m.unexpected(100, 2000)
	_, err = m.qp.PostSend(verbs.SendWR{ID: 2, Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ib.SGE{m.mr.SGE(0, 8)}})
	check(t, err)
	from.one() // the receive
	for _, tag := range []uint64{7, 8} {
		from.deliver(ib.TMH{Op: ib.TMEager, Tag: tag}.Append(nil))
	}
	check(t, m.qp.Destroy())
	m.want("matched", 1, ib.WCTMRecv, ib.WCTMMatch|ib.WCTMDataValid, 0, ib.TMInfo{Tag: 7})
	m.want("unexpected", 100, ib.WCTMRecv, 0, ib.TMHBytes, ib.TMInfo{})
	if n, err := m.cq.Poll(make([]ib.WC, 1)); n != 0 || err != nil {
		t.Errorf("%d more completions, %v", n, err)
	}
}

func TestTagRefusals(t *testing.T) {
	e := newEnd(t, ib.QPTypeRC, 64)
	attr := ib.SRQAttr{MaxWR: 16, MaxSGE: 1}
	caps := e.ctx.Query().TM
	if caps.Flags != ib.TMCapRC || caps.MaxNumTags == 0 || caps.MaxOps == 0 || caps.MaxSGE == 0 || caps.MaxRndvHdrSize < ib.TMHBytes+ib.RVHBytes {
		t.Errorf("%+v", caps)
	}
	other := newEnd(t, ib.QPTypeRC, 64)
	for _, c := range []struct {
		attr ib.SRQAttr
		tm   ib.TMAttr
		cq   *verbs.CQ
		arg  string
	}{
		{attr, ib.TMAttr{MaxNumTags: uint32(caps.MaxNumTags) + 1, MaxOps: 1}, e.cq, "tm.MaxNumTags"},
		{attr, ib.TMAttr{MaxOps: 1}, e.cq, "tm.MaxNumTags"},
		{attr, ib.TMAttr{MaxNumTags: 1}, e.cq, "tm.MaxOps"},
		{attr, ib.TMAttr{MaxNumTags: 1, MaxOps: 1<<32 - 1}, e.cq, "tm.MaxOps"},
		{attr, tagCap, nil, "cq"},
		{attr, tagCap, other.cq, "cq"},
		{ib.SRQAttr{}, tagCap, e.cq, "attr.MaxWR"},
	} {
		_, err := e.pd.CreateTagSRQ(c.attr, c.tm, c.cq)
		wantError(t, err, syscall.EINVAL, c.arg)
	}
	s, err := e.pd.CreateTagSRQ(attr, tagCap, e.cq)
	check(t, err)
	for _, op := range []ib.TagWR{
		{Opcode: ib.TagSync + 1}, {Opcode: ib.TagSync, Flags: 1 << 7}, {SGList: make([]ib.SGE, caps.MaxSGE+1)},
		{SGList: []ib.SGE{{Length: 1 << 31}, {Length: 1}}},
	} {
		if n, err := s.PostOps(ib.TagWR{Opcode: ib.TagSync}, op); n != 1 {
			t.Errorf("%d posted before %+v", n, op)
		} else {
			wantError(t, err, syscall.EINVAL, "wr")
		}
	}
	n, err := s.PostOps(make([]ib.TagWR, tagCap.MaxNumTags+1)...)
	wantError(t, err, syscall.ENOMEM, "SRQ")
	if n != int(tagCap.MaxNumTags) {
		t.Errorf("%d tags of %d", n, tagCap.MaxNumTags)
	}
	cap := ib.QPCap{MaxRecvWR: 1, MaxRecvSGE: 1}
	_, err = e.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeUD, SRQ: s, SendCQ: e.cq, RecvCQ: e.cq, Cap: cap})
	wantError(t, err, syscall.EINVAL, "attr.SRQ")
	pd, err := e.ctx.AllocPD()
	check(t, err)
	_, err = pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SRQ: s, SendCQ: e.cq, RecvCQ: e.cq, Cap: cap})
	wantError(t, err, syscall.EINVAL, "attr.SRQ")
	plain, err := e.pd.CreateSRQ(attr)
	check(t, err)
	_, err = plain.PostOps(ib.TagWR{Opcode: ib.TagSync})
	wantError(t, err, syscall.EOPNOTSUPP, "SRQ")

	c, err := verbs.Open(trpLoopback)
	check(t, err)
	defer c.Close()
	pd, err = c.AllocPD()
	check(t, err)
	if c.Query().TM != (ib.TMCaps{}) {
		t.Error("TRP has tag matching")
	}
	_, err = pd.CreateTagSRQ(attr, tagCap, e.cq)
	wantError(t, err, syscall.EOPNOTSUPP, "SRQ")
}

// Tags are removed while messages arrive: each receive is removed, or gets a message.
func TestTagRemovalRaces(t *testing.T) {
	const tags = 300
	m, from := newMatcher(t, 4096, 0)
	for i := range uint64(32) {
		m.unexpected(1000+i, 0)
	}
	var side sync.WaitGroup
	side.Add(1)
	go func() { // adds each tag, and removes it again at once
		defer side.Done()
		for i := range uint64(tags) {
			wr := []ib.TagWR{{RecvID: i, Tag: 1, Mask: 1, SGList: []ib.SGE{m.mr.SGE(0, 100)}}}
			if _, err := m.srq.PostOps(wr...); err != nil {
				t.Error(err)
				return
			}
			if _, err := m.srq.PostOps(ib.TagWR{ID: i, Opcode: ib.TagDel, Flags: ib.TagSignaled, Handle: wr[0].Handle}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	ends := make(map[uint64][]ib.WC)
	unexpected, sent := uint32(0), 0
	handle := func(wc ib.WC) {
		switch {
		case wc.Opcode == ib.WCTMSync:
		case wc.Opcode == ib.WCTMRecv && wc.Flags&ib.WCTMMatch == 0:
			unexpected++
			m.unexpected(wc.WRID, 0)
			_, err := m.srq.PostOps(ib.TagWR{Opcode: ib.TagSync, Flags: ib.TagUnexpected, UnexpectedCnt: unexpected})
			check(t, err)
		default:
			ends[wc.WRID] = append(ends[wc.WRID], wc)
		}
	}
	defer side.Wait()
	received := func() (n int) {
		for _, l := range ends {
			n += len(l)
		}
		return n
	}
	for removed := 0; removed < tags; {
		if sent < 1000 {
			from.deliver(ib.TMH{Op: ib.TMEager, Tag: 1}.Append(nil))
			sent++
		}
		wc := make([]ib.WC, 16)
		n, err := m.cq.Poll(wc)
		check(t, err)
		for _, w := range wc[:n] {
			handle(w)
			if w.Opcode == ib.WCTMDel || w.Status == ib.WCTMErr {
				removed++
			}
		}
	}
	side.Wait()
	for received()+int(unexpected) < sent+tags {
		handle(m.poll(1)[0])
	}
	matched := 0
	for i := range uint64(tags) {
		l := ends[i]
		failed := slices.ContainsFunc(l, func(w ib.WC) bool { return w.Status == ib.WCTMErr })
		got := slices.ContainsFunc(l, func(w ib.WC) bool { return w.Flags&ib.WCTMMatch != 0 })
		if failed != got || len(l) > 2 {
			t.Fatalf("receive %d: %+v", i, l)
		}
		if got {
			matched++
		}
	}
	if matched+int(unexpected) != sent {
		t.Errorf("%d matched, %d unexpected, %d sent", matched, unexpected, sent)
	}
}
