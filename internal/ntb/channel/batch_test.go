// SPDX-License-Identifier: BSD-2-Clause

package channel

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

func fill(b *Batch, t *testing.T) (want []byte, held *mem.Region) {
	table := mem.NewTable(func() uint32 { return 12345 })
	mr, err := table.Register(1, bytes.Repeat([]byte{9}, 100), 0x1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	var spans []mem.Span
	for _, g := range []ib.SGE{{Addr: 0x1000, Length: 30, LKey: mr.LKey()}, {Addr: 0x1020, Length: 10, LKey: mr.LKey()}} {
		s, v := table.Local(1, g, 0)
		if v != ib.VendorNone {
			t.Fatal(v)
		}
		spans = append(spans, s)
	}
	b.Copy(8, []byte("abc"))
	b.Append(32, func(b []byte) []byte { return append(b, "de"...) })
	b.Append(34, func(b []byte) []byte { return append(b, "fg"...) })
	b.Gather(64, spans)
	b.Word4(120, 0x01020304)
	b.Word8(128, 0x0102030405060708)
	want = make([]byte, 256)
	copy(want[8:], "abc")
	copy(want[32:], "defg")
	copy(want[64:], bytes.Repeat([]byte{9}, 40))
	copy(want[120:], []byte{4, 3, 2, 1})
	copy(want[128:], []byte{8, 7, 6, 5, 4, 3, 2, 1})
	return want, mr
}

// The same batch over shared memory and over a stream, cut anywhere.
func TestBatch(t *testing.T) {
	b := NewBatch()
	want, mr := fill(b, t)
	if b.Len() != 5 {
		t.Errorf("%d writes: what is contiguous is one", b.Len())
	}
	direct, streamed := window.New(make([]byte, 256)), window.New(make([]byte, 256))
	if err := b.Apply(direct.Far()); err != nil {
		t.Fatal(err)
	}
	s, err := b.AppendStream(nil)
	if err != nil {
		t.Fatal(err)
	}
	for len(s) > 0 {
		m, rest, ok := wire.ParseMessage(s)
		if !ok || !Take(streamed, m, rest[:m.Bytes]) {
			t.Fatalf("%+v", m)
		}
		s = rest[m.Bytes:]
	}
	for name, w := range map[string]*window.Window{"direct": direct, "streamed": streamed} {
		if got, _ := w.Bytes(0, 256); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, want)
		}
	}
	if mr.Idle() {
		t.Error("the memory is not held")
	}
	if b.Reset(); !mr.Idle() || b.Len() != 0 {
		t.Error("the memory is held")
	}
}

// A write outside the peer's window ends the batch; later writes are not carried out.
func TestBatchStaysInside(t *testing.T) {
	for name, f := range map[string]func(*Batch){
		"copy":   func(b *Batch) { b.Copy(250, make([]byte, 8)) },
		"wraps":  func(b *Batch) { b.Copy(^uint64(0)-3, make([]byte, 8)) },
		"word":   func(b *Batch) { b.Word4(256, 1) },
		"askew":  func(b *Batch) { b.Word8(4, 1) },
		"gather": func(b *Batch) { fill(b, t); b.ops = b.ops[2:3]; b.ops[0].to = 220 },
	} {
		b, w := NewBatch(), window.New(make([]byte, 256))
		f(b)
		b.Word4(0, 7)
		if err := b.Apply(w.Far()); err != ErrOutside || w.Load4(0) != 0 {
			t.Errorf("%s: %v", name, err)
		}
		b.Reset()
	}
}

// Data path: filling and applying allocates nothing.
func TestBatchDoesNotAllocate(t *testing.T) {
	b, w, p := NewBatch(), window.New(make([]byte, 4096)), make([]byte, 128)
	step := func() {
		b.Copy(0, p)
		b.Word8(256, 1)
		b.Word4(264, 1)
		b.Apply(w.Far())
		b.Reset()
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
