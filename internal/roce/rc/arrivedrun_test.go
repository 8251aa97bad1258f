// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// bursts returns the datagrams of the bursts that a machine sends now, each burst as a socket would
// get it.
func (w *wired) bursts(from *end) (all [][][]byte) {
	for from.qp.PollOutput(w.now, w.burst) {
		w.burst.Seal()
		flat := bytes.Join(w.burst.Iov(), nil)
		all = append(all, slices.Collect(slices.Chunk(flat, w.burst.SegmentBytes())))
		w.burst.Reset()
	}
	return all
}

// deliver gives datagrams to a machine: one by one, or in runs as they are found.
func (w *wired) deliver(to *end, datagrams [][]byte, meta roce.Meta, runs bool) {
	var p wire.Packet
	for i, n := 0, 0; i < len(datagrams); i += n {
		b := datagrams[i]
		n = 1
		if p.Parse(b) != wire.WellFormed {
			continue
		}
		if runs && p.Info.Middle && p.Pad == 0 {
			for i+n < len(datagrams) && len(datagrams[i+n]) == len(b) &&
				wire.Follows(datagrams[i+n], datagrams[i+n-1]) {
				n++
			}
		}
		if n > 1 {
			run := roce.Run{Data: bytes.Join(datagrams[i:i+n], nil), Bytes: len(b)}
			to.qp.HandleRun(w.now, &p, &meta, run)
		} else {
			to.qp.HandleInput(w.now, &p, &meta)
		}
	}
}

// twin has two pairs of machines to which the same happens. One takes its packets in runs.
type twin struct {
	*testing.T
	rand        *rand.Rand
	plain, runs *wired
	gone        bool // the memory of both b
	// There are READs, and no marks. The responses of a run are one step of the requester's window.
	// That may become another one, so the pairs may come apart.
	reads, apart bool
	log          []string
}

func (t *twin) both() [2]*wired { return [2]*wired{t.plain, t.runs} }

func (t *twin) note(format string, a ...any) { t.log = append(t.log, fmt.Sprintf(format, a...)) }

// post posts a work request of random length, and at times a receive that is too short.
func (t *twin) post() {
	ops := []ib.WROpcode{ib.WRRDMAWrite, ib.WRSend, ib.WRRDMARead}
	if !t.reads {
		ops = ops[:2]
	}
	op := ops[t.rand.IntN(len(ops))]
	n := uint32(t.rand.IntN(30 << 10))
	room := n
	if t.rand.IntN(20) == 0 {
		room = n / 2
	}
	cut := uint32(max(0, t.rand.IntN(40<<10)-(10<<10)))
	t.note("post %v %d, receive %d, entries from %d", op, n, room, cut)
	for _, w := range t.both() {
		w.cut = cut
		if op == ib.WRSend && w.b.rq.Len() < 100 {
			w.postRecv(room)
		}
		if w.a.sq.Len() < 100 {
			w.post(op, n)
		}
		w.a.qp.Doorbell(w.now)
	}
}

// spoil changes the datagrams of a burst, as networks and liars do.
func (t *twin) spoil(d [][]byte) ([][]byte, string) {
	i, j := t.rand.IntN(len(d)), t.rand.IntN(len(d))
	switch t.rand.IntN(10) {
	case 0:
		return slices.Delete(slices.Clone(d), i, i+1), "a gap"
	case 1:
		return slices.Insert(slices.Clone(d), i, d[j]), "a duplicate"
	case 2:
		d = slices.Clone(d)
		d[i], d[j] = d[j], d[i]
		return d, "another order"
	case 3:
		return append(slices.Clone(d), d...), "all of it again"
	}
	d = slices.Clone(d)
	for k := range d {
		d[k] = slices.Clone(d[k])
	}
	switch t.rand.IntN(8) {
	case 0:
		d[i][8] ^= 0x80
		return d, "AckReq"
	case 1:
		d[i][0] = byte(t.rand.IntN(0x18))
		return d, "another opcode"
	case 2:
		for k := range d {
			d[k][8] |= 0x80
		}
		return d, "AckReq in all"
	case 3:
		for k := range d {
			d[k][2] ^= 1
		}
		return d, "another partition"
	case 4:
		d[i] = slices.Delete(d[i], wire.BTHBytes, wire.BTHBytes+min(4, len(d[i])-wire.MinPacketBytes))
		return d, "a short payload"
	case 5:
		for k := range d {
			if op := wire.Opcode(d[k][0]); op.Info().Middle {
				d[k] = slices.Delete(d[k], wire.BTHBytes, wire.BTHBytes+4)
			}
		}
		return d, "short payloads"
	case 6:
		for k := len(d) - 1; k >= 0; k-- {
			if op := wire.Opcode(d[k][0]); op.Info().Middle {
				return append(d[:k+1], following(d[k], 1+t.rand.IntN(6))...), "a longer message"
			}
		}
	}
	return d, "nothing"
}

// following returns n packets like b with the next PSNs.
func following(b []byte, n int) (all [][]byte) {
	for range n {
		b = slices.Clone(b)
		psn := ib.NewPSN(binary.BigEndian.Uint32(b[8:])).Add(1)
		copy(b[9:], []byte{byte(psn >> 16), byte(psn >> 8), byte(psn)})
		all = append(all, b)
	}
	return all
}

// exchange carries what one end of each pair has sent to the other.
func (t *twin) exchange(aToB bool) (any bool) {
	var all [2][][][]byte
	var from *end
	for i, w := range t.both() {
		from = w.b
		if aToB {
			from = w.a
		}
		all[i] = w.bursts(from)
	}
	if a, b := headers(all[0]), headers(all[1]); a != b {
		if t.reads {
			t.apart = true
			return false
		}
		t.Fatalf("%v\nthe machine that takes runs sends\n%s\nthe other one\n%s", t.log, b, a)
	}
	for _, d := range all[0] {
		any = true
		path := from.qp.CurrentPath()
		meta, how := roce.Meta{Src: path.Src, Dst: path.Dst, SrcPort: path.SrcPort}, "whole"
		if t.rand.IntN(3) == 0 {
			d, how = t.spoil(d)
		}
		switch n := t.rand.IntN(20); {
		case n == 0 && !t.reads:
			meta.TOS, how = 3, how+", marked"
		case n == 1:
			how += ", from elsewhere"
			meta.Src = meta.Dst
		}
		if aToB && !t.gone && t.rand.IntN(100) == 0 {
			t.gone = true
			how += ", its memory gone"
			for _, w := range t.both() {
				if err := w.b.mem.Deregister(w.b.mr); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.note("%d datagrams to b %v: %s", len(d), aToB, how)
		for i, w := range t.both() {
			to := w.a
			if aToB {
				to = w.b
			}
			w.deliver(to, d, meta, i == 1)
		}
		t.compare()
	}
	return any
}

// headers returns the BTHs of bursts.
func headers(bursts [][][]byte) string {
	var all [][]byte
	for _, d := range bursts {
		for _, b := range d {
			all = append(all, b[:wire.BTHBytes])
		}
	}
	return fmt.Sprintf("%x", all)
}

// compare holds that both pairs have the same memory, completions, state and counts.
func (t *twin) compare() {
	x, y := t.plain, t.runs
	for i, e := range [2][2]*end{{x.a, y.a}, {x.b, y.b}} {
		if !bytes.Equal(e[0].buf[:64<<10], e[1].buf[:64<<10]) {
			t.Fatalf("%v\nend %d has other memory", t.log, i)
		}
		if a, b := *e[0].qp.Counters(), *e[1].qp.Counters(); a != b {
			t.Fatalf("%v\nend %d counts %v, not %v", t.log, i, b, a)
		}
		var wcs [2][256]ib.WC
		n, k := e[0].cq.Poll(wcs[0][:]), e[1].cq.Poll(wcs[1][:])
		if n != k || wcs[0] != wcs[1] {
			t.Fatalf("%v\nend %d completes %+v, not %+v", t.log, i, wcs[1][:k], wcs[0][:n])
		}
		var attr [2]ib.QPAttr
		e[0].qp.Query(&attr[0])
		e[1].qp.Query(&attr[1])
		if fmt.Sprint(attr[0]) != fmt.Sprint(attr[1]) {
			t.Fatalf("%v\nend %d has %+v, not %+v", t.log, i, attr[1], attr[0])
		}
	}
}

// A machine that takes runs does all that one does which takes their packets one by one: with gaps,
// duplicates, other orders, lies, receives and memory that do not suffice, and time-outs.
func TestRunIsTakenAsItsPackets(t *testing.T) {
	apart := 0
	for seed := range uint64(120) {
		w := &twin{T: t, rand: rand.New(rand.NewPCG(seed, 7)), plain: newWired(t, ib.MTU1024),
			runs: newWired(t, ib.MTU1024), reads: seed%2 == 0}
		w.note("seed %d", seed)
		for _, p := range w.both() {
			for i := range p.a.buf[:64<<10] {
				p.a.buf[i], p.b.buf[i] = byte(i*7+i>>8), byte(i*11+i>>9)
			}
		}
		for range 6 {
			w.post()
			for n := 0; n < 12 && (w.exchange(true) || w.exchange(false)); n++ {
			}
			if w.apart {
				apart++
				break
			}
			for _, p := range w.both() {
				p.now += 1 << 24
				p.a.qp.HandleTimeout(p.now)
				p.b.qp.HandleTimeout(p.now)
			}
		}
	}
	if apart > 6 {
		t.Errorf("%d pairs came apart", apart)
	}
}
