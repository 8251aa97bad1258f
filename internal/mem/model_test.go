// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"verbena/ib"
)

// The oracle of the model test: it knows no ranges and no slots, only which
// single bytes each key opens.
type oracle struct {
	keys map[uint32]*opened
	live []*modelRegion
	wins []*modelWindow
	old  []uint32 // keys that were once known
}

// opened has the bytes that one key permits, by address: each is the byte itself in
// the shadow of the application's memory.
type opened struct {
	pd     PD
	qpn    ib.QPN // 0: any
	access ib.Access
	window bool
	bytes  map[uint64]*byte
}

type modelRegion struct {
	r        *Region
	pd       PD
	fast     int // segments, 0 for a plain region
	valid    bool
	access   ib.Access
	key      uint32
	bytes    map[uint64]*byte
	nextIOVA uint64
	next     []*byte // of the last Map
	bound    int
}

type modelWindow struct {
	w   *Window
	pd  PD
	typ ib.MWType
	key uint32
	to  *modelRegion
}

// memoryPair is one buffer of the application, with its expected contents.
type memoryPair struct{ real, shadow []byte }

type world struct {
	t    *testing.T
	rng  *rand.Rand
	tab  *Table
	o    oracle
	bufs []memoryPair
}

// TestModel drives the table and the oracle with the same random calls and
// compares every verdict, and at the end every byte.
func TestModel(t *testing.T) {
	for seed := range uint64(40) {
		w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), tab: newTestTable(seed)}
		w.o.keys = map[uint32]*opened{}
		for range 6 {
			w.bufs = append(w.bufs, memoryPair{words(40), make([]byte, 40)})
		}
		for step := range 1500 {
			w.step()
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		for i, b := range w.bufs {
			if !bytes.Equal(b.real, b.shadow) {
				t.Fatalf("seed %d: buffer %d is\n%x, want\n%x", seed, i, b.real, b.shadow)
			}
		}
		for _, m := range w.o.live {
			if !m.r.Idle() {
				t.Fatalf("seed %d: spans left", seed)
			}
		}
	}
}

func (w *world) step() {
	switch n := w.rng.IntN(40); {
	case n < 2:
		w.register()
	case n < 3:
		w.allocFast()
	case n < 5:
		w.deregister()
	case n < 6:
		w.reregister()
	case n < 8:
		w.mapFast()
	case n < 10:
		w.fastRegister()
	case n < 12:
		w.invalidate()
	case n < 13:
		w.allocWindow()
	case n < 16:
		w.bind()
	case n < 17:
		w.freeWindow()
	default:
		w.access()
	}
}

// piece returns a random part of a random buffer, real and shadow.
func (w *world) piece() (real []byte, shadow []*byte) {
	b := w.bufs[w.rng.IntN(len(w.bufs))]
	from := w.rng.IntN(len(b.real))
	to := from + w.rng.IntN(len(b.real)-from+1)
	for i := from; i < to; i++ {
		shadow = append(shadow, &b.shadow[i])
	}
	return b.real[from:to], shadow
}

func at(base uint64, list []*byte) map[uint64]*byte {
	m := map[uint64]*byte{}
	for i, p := range list {
		m[base+uint64(i)] = p
	}
	return m
}

// address returns an iova near 0, near the top, or in between.
func (w *world) address() uint64 {
	switch w.rng.IntN(3) {
	case 0:
		return uint64(w.rng.IntN(64))
	case 1:
		return ^uint64(0) - uint64(w.rng.IntN(64))
	}
	return iova + uint64(w.rng.IntN(64))
}

func (w *world) rights() ib.Access { return ib.Access(w.rng.IntN(64)) }
func (w *world) domain() PD        { return PD(1 + w.rng.IntN(8)/7) }

func legal(a ib.Access) bool {
	return a&(ib.AccessRemoteWrite|ib.AccessRemoteAtomic) == 0 || a&ib.AccessLocalWrite != 0
}

func wraps(base uint64, n int) bool { return n > 0 && base+uint64(n-1) < base }

func (w *world) check(what string, err error, want bool) bool {
	w.t.Helper()
	if (err == nil) != want {
		w.t.Errorf("%s: %v, want success %v", what, err, want)
	}
	return want
}

func (w *world) checkAccessError(what string, v AccessError, want bool) bool {
	w.t.Helper()
	if (v == ib.VendorNone) != want {
		w.t.Errorf("%s: %v, want success %v", what, v, want)
	}
	return want
}

// open tells the oracle a region's key.
func (w *world) open(m *modelRegion) {
	m.key, m.valid = uint32(m.r.LKey()), true
	if w.o.keys[m.key] != nil {
		w.t.Errorf("key %#x is in use", m.key)
	}
	w.o.keys[m.key] = &opened{pd: m.pd, access: m.access, bytes: m.bytes}
	w.o.old = append(w.o.old, m.key)
}

func (w *world) register() {
	real, shadow := w.piece()
	m := &modelRegion{pd: w.domain(), access: w.rights(), bytes: at(0, shadow)}
	var base uint64
	if m.access&ib.AccessZeroBased == 0 || w.rng.IntN(4) == 0 {
		base = w.address()
		m.bytes = at(base, shadow)
	}
	r, err := w.tab.Register(m.pd, real, base, m.access)
	if w.check("register", err, legal(m.access) && !wraps(base, len(real)) && (base == 0 || m.access&ib.AccessZeroBased == 0)) {
		m.r = r
		w.o.live = append(w.o.live, m)
		w.open(m)
	}
}

func (w *world) allocFast() {
	m := &modelRegion{pd: w.domain(), fast: 1 + w.rng.IntN(4)}
	r, err := w.tab.AllocFast(m.pd, m.fast)
	if w.check("alloc fast", err, true) {
		m.r, m.key = r, uint32(r.RKey())
		w.o.live = append(w.o.live, m)
		w.o.old = append(w.o.old, m.key)
	}
}

func (w *world) anyRegion() (int, *modelRegion) {
	if len(w.o.live) == 0 {
		return 0, nil
	}
	i := w.rng.IntN(len(w.o.live))
	return i, w.o.live[i]
}

func (w *world) deregister() {
	i, m := w.anyRegion()
	if m == nil || len(w.o.live) < 4 {
		return
	}
	if w.check("deregister", w.tab.Deregister(m.r), m.bound == 0) {
		delete(w.o.keys, m.key)
		w.o.live = append(w.o.live[:i], w.o.live[i+1:]...)
	}
}

func (w *world) reregister() {
	_, m := w.anyRegion()
	if m == nil {
		return
	}
	flags := ib.ReregFlags(w.rng.IntN(8))
	real, shadow := w.piece()
	pd, base, access := w.domain(), w.address(), w.rights()
	newBytes, newBase, newLen := m.bytes, m.r.Addr(), int(m.r.Length())
	if flags&ib.ReregTranslation != 0 {
		newBytes, newBase, newLen = at(base, shadow), base, len(real)
	}
	newAccess := m.access
	if flags&ib.ReregAccess != 0 {
		newAccess = access
	}
	err := w.tab.Reregister(m.r, flags, pd, real, base, access)
	if w.check("reregister", err, flags != 0 && m.fast == 0 && m.bound == 0 && legal(newAccess) &&
		!wraps(newBase, newLen) && (newBase == 0 || newAccess&ib.AccessZeroBased == 0)) {
		delete(w.o.keys, m.key)
		if flags&ib.ReregPD != 0 {
			m.pd = pd
		}
		m.bytes, m.access = newBytes, newAccess
		w.open(m)
	}
}

func (w *world) mapFast() {
	_, m := w.anyRegion()
	if m == nil {
		return
	}
	var real [][]byte
	var taken []*byte
	want, room := 0, m.fast
	full := false
	for range w.rng.IntN(6) {
		r, s := w.piece()
		real = append(real, r)
		if len(r) > 0 && room == 0 {
			full = true
		}
		if !full {
			want++
			taken = append(taken, s...)
			if len(r) > 0 {
				room--
			}
		}
	}
	base := w.address()
	n, err := m.r.Map(real, base)
	if w.check("map", err, m.fast > 0 && !wraps(base, len(taken))) {
		if n != want {
			w.t.Errorf("map took %d, want %d", n, want)
		}
		m.next, m.nextIOVA = taken, base
	}
}

func (w *world) fastRegister() {
	_, m := w.anyRegion()
	if m == nil {
		return
	}
	key := m.key&^0xff | w.rng.Uint32()&0xff
	if w.rng.IntN(10) == 0 {
		key ^= 0x100
	}
	pd, access := w.domain(), w.rights()
	v := w.tab.FastRegister(pd, m.r, ib.RKey(key), access)
	if w.checkAccessError("fast register", v, m.fast > 0 && !m.valid && pd == m.pd && legal(access) && key>>8 == m.key>>8 && len(m.next) > 0) {
		m.access = access
		m.bytes = at(m.nextIOVA, m.next)
		if access&ib.AccessZeroBased != 0 {
			m.bytes = at(0, m.next)
		}
		w.open(m)
		if m.key != key {
			w.t.Errorf("key %#x, want %#x", m.key, key)
		}
	}
}

func (w *world) someKey() uint32 {
	if len(w.o.old) == 0 {
		return w.rng.Uint32()
	}
	recent := min(len(w.o.old), 24)
	key := w.o.old[len(w.o.old)-1-w.rng.IntN(recent)]
	switch w.rng.IntN(12) {
	case 0:
		key ^= 1 << w.rng.IntN(32)
	case 1:
		key = w.o.old[w.rng.IntN(len(w.o.old))]
	}
	return key
}

func (w *world) queuePair() ib.QPN { return qp1 + ib.QPN(w.rng.IntN(6)/5) }

func (w *world) invalidate() {
	key, pd, qpn, remote := w.someKey(), w.domain(), w.queuePair(), w.rng.IntN(2) == 0
	want := false
	after := func() {}
	for _, m := range w.o.live {
		if m.key == key {
			want = m.fast > 0 && m.pd == pd && m.bound == 0 && (m.valid || !remote)
			after = func() { m.valid = false }
		}
	}
	for _, x := range w.o.wins {
		if x.key == key {
			want = x.typ == ib.MWType2 && x.pd == pd
			if remote {
				want = want && x.to != nil && w.o.keys[key].qpn == qpn
			}
			after = x.unbind
		}
	}
	if w.checkAccessError("invalidate", w.tab.Invalidate(pd, qpn, ib.RKey(key), remote), want) {
		delete(w.o.keys, key)
		after()
	}
}

func (x *modelWindow) unbind() {
	if x.to != nil {
		x.to.bound--
		x.to = nil
	}
}

func (w *world) allocWindow() {
	x := &modelWindow{pd: w.domain(), typ: ib.MWType1 + ib.MWType(w.rng.IntN(2))}
	win, err := w.tab.AllocWindow(x.pd, x.typ)
	if w.check("alloc window", err, true) {
		x.w, x.key = win, uint32(win.RKey())
		w.o.wins = append(w.o.wins, x)
	}
}

func (w *world) bind() {
	_, m := w.anyRegion()
	if m == nil || len(w.o.wins) == 0 {
		return
	}
	x := w.o.wins[w.rng.IntN(len(w.o.wins))]
	access := (w.rights() | w.rights()<<4) & (windowAccess | ib.AccessLocalWrite)
	if w.rng.IntN(8) > 0 {
		access &^= ib.AccessLocalWrite
	}
	addr := m.r.Addr() + uint64(w.rng.IntN(24)) - 2
	length := uint64(w.rng.IntN(24))
	var key uint32
	if x.typ == ib.MWType2 {
		key = x.key&^0xff | w.rng.Uint32()&0xff
	}
	qpn := w.queuePair()

	want := access&^windowAccess == 0
	unbind := x.typ == ib.MWType1 && length == 0
	bytes := map[uint64]*byte{}
	if !unbind {
		want = want && length > 0 && m.pd == x.pd && (m.fast == 0 || m.valid) &&
			m.access&ib.AccessMWBind != 0 && m.access&ib.AccessZeroBased == 0 &&
			(access&(ib.AccessRemoteWrite|ib.AccessRemoteAtomic) == 0 || m.access&ib.AccessLocalWrite != 0)
		if x.typ == ib.MWType1 {
			want = want && access&ib.AccessZeroBased == 0
		} else {
			want = want && x.to == nil
		}
		base := addr
		if access&ib.AccessZeroBased != 0 {
			base = 0
		}
		for i := range length {
			p := m.bytes[addr+i]
			want = want && p != nil
			bytes[base+i] = p
		}
	}
	got, v := w.tab.Bind(x.w, qpn, ib.RKey(key), m.r, addr, length, access)
	if !w.checkAccessError("bind", v, want) {
		return
	}
	delete(w.o.keys, x.key)
	x.unbind()
	if x.typ == ib.MWType2 && uint32(got) != key || got != x.w.RKey() {
		w.t.Errorf("bound to key %#x, RKey %#x, asked for %#x", got, x.w.RKey(), key)
	}
	x.key = uint32(got)
	if unbind {
		return
	}
	x.to = m
	m.bound++
	o := &opened{pd: x.pd, access: access, window: true, bytes: bytes}
	if x.typ == ib.MWType2 {
		o.qpn = qpn
	}
	w.o.keys[x.key] = o
	w.o.old = append(w.o.old, x.key)
}

func (w *world) freeWindow() {
	if len(w.o.wins) < 3 {
		return
	}
	i := w.rng.IntN(len(w.o.wins))
	x := w.o.wins[i]
	if w.check("free window", w.tab.FreeWindow(x.w), true) {
		delete(w.o.keys, x.key)
		x.unbind()
		w.o.wins = append(w.o.wins[:i], w.o.wins[i+1:]...)
	}
}

// access tries a key: local or remote, with the rights and bytes as they come.
func (w *world) access() {
	key, pd, qpn := w.someKey(), w.domain(), w.queuePair()
	o := w.o.keys[key]
	va := w.address()
	if o != nil && len(o.bytes) > 0 { // aim at it
		at := slices.Sorted(maps.Keys(o.bytes))
		va = at[w.rng.IntN(len(at))] + uint64(w.rng.IntN(5)) - 2
	}
	n := 1 + w.rng.IntN(12)
	local := w.rng.IntN(3) == 0
	need := []ib.Access{ib.AccessRemoteRead, ib.AccessRemoteWrite, ib.AccessRemoteAtomic}[w.rng.IntN(3)]
	if local {
		need = ib.Access(w.rng.IntN(2))
	}
	if need == ib.AccessRemoteAtomic {
		n = 8
		va &^= 7 // alignment has tests of its own
	}

	want := o != nil && o.pd == pd && o.access&need == need
	var shadow []*byte
	if want {
		want = !(local && o.window) && (local || o.qpn == 0 || o.qpn == qpn)
		for i := range n {
			p := o.bytes[va+uint64(i)]
			want = want && p != nil && va+uint64(i) >= va
			shadow = append(shadow, p)
		}
	}
	var s Span
	var v AccessError
	if local {
		s, v = w.tab.Local(pd, ib.SGE{Addr: va, Length: uint32(n), LKey: ib.LKey(key)}, need)
	} else {
		s, v = w.tab.Remote(pd, qpn, ib.RKey(key), va, uint32(n), need)
	}
	if v == ib.VendorAlign && want && need == ib.AccessRemoteAtomic {
		return
	}
	if !w.checkAccessError("access", v, want) {
		return
	}
	defer s.Release()
	got := make([]byte, n)
	s.CopyOut(0, got)
	for i, p := range shadow {
		if got[i] != *p {
			w.t.Errorf("read %#x at %#x, want %#x", got[i], va+uint64(i), *p)
		}
	}
	if need&(ib.AccessLocalWrite|ib.AccessRemoteWrite) != 0 {
		for i, p := range shadow {
			got[i] = byte(w.rng.Uint32())
			*p = got[i]
		}
		// Bytes of a region whose pieces overlap take the last write.
		for i := range got {
			s.CopyIn(i, got[i:i+1])
		}
	}
}
