// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"verbena/ib"
)

type parser func(b []byte) (v any, enc, rest []byte, ok bool)

func of[T interface{ Append([]byte) []byte }](parse func([]byte) (T, []byte, bool)) parser {
	return func(b []byte) (any, []byte, []byte, bool) {
		v, rest, ok := parse(b)
		return v, v.Append(nil), rest, ok
	}
}

func wqe(b []byte) (any, []byte, []byte, bool) {
	var w WQE
	if !w.Parse(b) {
		return WQE{}, nil, b, false
	}
	return w, w.Append(nil), b[WQEBytes:], true
}

func zeros(n int) string { return strings.Repeat("00", n) }

var formats = []struct {
	name  string
	bytes string // written out by hand from the comments on the fields
	parse parser
	want  any
}{
	{"Resources", "016e7468" + "00000000" + "0000100000000000" + "0010000000000000" + "00040000" + "10000000" + "0000080000000000" + "0000040000000000" +
		"0020000000000000" + "0024000000000000" + "8024000000000000" + "00400000" + "00010000" + "0065000000000000" + "00000100" + "f87f0000", of(ParseResources),
		Resources{WindowBytes: 1 << 20, BellsAt: 0x1000, Bells: 1024, CommandCap: 16, ArenaAt: 0x80000, ArenaBytes: 0x40000, ResponsesAt: 0x2000, DoneAt: 0x2400,
			MADs: DatagramRing{At: 0x2480, Cap: 0x4000, Max: 256}, Frames: DatagramRing{At: 0x6500, Cap: 0x10000, Max: 0x7ff8}}},
	{"Prepare", "026e7468" + "00000000" + "0030000000000000" + "0040000000000000", of(ParsePrepare), Prepare{CommandsAt: 0x3000, PostedAt: 0x4000}},
	{"Introduction", "026e746d" + "01" + "00" + "ff03" + "0000000800000000" + "0000000400000000", of(ParseIntroduction), Introduction{Side: 1, Slot: 1023, SessionBytes: 1 << 27, MemoryBytes: 1 << 26}},
	{"Ready", "036e7468" + "00000000", of(ParseReady), Ready{}},
	{"command header", "08000000" + "07000000", of(ParseCommandHeader), CommandHeader{Op: OpMRCreate, Index: 7}},
	{"response header", "0c000000" + "07000000" + "05000000" + "00000000", of(ParseResponseHeader), ResponseHeader{OpQPCreate, 7, CommandNoRoom}},
	{"MRCreate", "44332211" + "03000000" + "8877665544332211" + "0020000000000000" + "03000000" + "02000000" + "07000000" + "00000000" +
		"0010000000000000" + "0010000000000000" + "0030000000000000" + "0008000000000000", of(ParseMRCreate),
		MRCreate{Key: 0x11223344, Access: ib.AccessLocalWrite | ib.AccessRemoteWrite, Addr: 0x1122334455667788, Length: 0x2000, Total: 3, Count: 2, Domain: 7,
			Pieces: [MaxCreatePieces]Piece{{0x1000, 0x1000}, {0x3000, 0x800}}}},
	{"MRAppend", "44332211" + "02000000" + "01000000" + "00000000" + "0050000000000000" + "0008000000000000", of(ParseMRAppend),
		MRAppend{Key: 0x11223344, Pos: 2, Count: 1, Pieces: [MaxAppendPieces]Piece{{0x5000, 0x800}}}},
	{"MRDelete", "44332211", of(ParseMRDelete), MRDelete{0x11223344}},
	{"QPCreate", "11000000" + "40000000" + "0060000000000000" + "0070000000000000" + "05000000" + "09000000", of(ParseQPCreate),
		QPCreate{QPN: 0x11, Cap: 64, CQEsAt: 0x6000, DoneAt: 0x7000, Bell: 5, Serial: 9}},
	{"QPCreated", "0080000000000000" + "06000000" + "00000000", of(ParseQPCreated), QPCreated{WQEsAt: 0x8000, Bell: 6}},
	{"QPModify", "11000000" + "22000000" + "03000000" + "66554400", of(ParseQPModify), QPModify{QPN: 0x11, Dest: 0x22, State: ib.QPRTS, PSN: 0x445566}},
	{"QPGrant", "11000000" + "05000000" + "07000000" + "01000000", of(ParseQPGrant), QPGrant{QPN: 0x11, Serial: 5, Domain: 7, Open: true}},
	{"QPDelete", "11000000", of(ParseQPDelete), QPDelete{0x11}},
	{"Addresses", "02000000" + "00000000" + "00000000000000000000ffffc0000201" + "fe800000000000000000000000000007", of(ParseAddresses),
		Addresses{Count: 2, GIDs: [MaxAddresses]ib.GID{ib.GIDFromAddr(netip.MustParseAddr("192.0.2.1")), ib.GIDFromAddr(netip.MustParseAddr("fe80::7"))}}},
	{"Management", "00000000000000000000ffffc0000201" + "fe800000000000000000000000000007" + strings.Repeat("5a", 256), of(ParseManagement),
		Management{ib.GIDFromAddr(netip.MustParseAddr("192.0.2.1")), ib.GIDFromAddr(netip.MustParseAddr("fe80::7")), bytes.Repeat([]byte{0x5a}, 256)}},
	{"record header", "2a000000" + "40000000", of(ParseRecordHeader), RecordHeader{Bytes: 42, Index: 0x40}},
	{"WQE, SEND of three bytes", "01" + "17" + "0000" + "0c000000" + "03000000" + "00000000" + "03000000" + "00000000" + "00000000" + "00000000" +
		"616263" + zeros(21) + "09000000" + "02000000" + zeros(64), wqe,
		WQE{Op: WQESend, Flags: WQEFirst | WQELast | WQESolicited | WQEDone, Done: 12, Mark: NewPosition(2, 9), Length: 3, Bytes: 3, Inline: [MaxInline]byte{'a', 'b', 'c'}}},
	{"WQE, SEND of 25 bytes", "01" + "03" + "0000" + "00000000" + "19000000" + "00000000" + "19000000" + "00000000" + "00000000" + "00000000" +
		zeros(24) + "09000000" + "02000000" + "61" + zeros(63), wqe, WQE{Op: WQESend, Flags: WQEFirst | WQELast, Mark: NewPosition(2, 9), Length: 25, Bytes: 25, Inline: [MaxInline]byte{'a'}}},
	{"WQE, WRITE of two bytes", "04" + "03" + "0000" + "00000000" + "02000000" + "00000000" + "02000000" + "00000000" + "44332211" + "00000000" +
		"0010000000000000" + "6162" + zeros(14) + "09000000" + "01000000" + zeros(64), wqe,
		WQE{Op: WQEWrite, Flags: WQEFirst | WQELast, Mark: NewPosition(1, 9), Length: 2, Bytes: 2, Key: 0x11223344, Addr: 0x1000, Inline: [MaxInline]byte{'a', 'b'}}},
	{"WQE, last piece of a WRITE", "05" + "02" + "0000" + "00000000" + "00000200" + "00000100" + "00000100" + "78563412" + "44332211" + "00000000" +
		"0000000001000000" + "0000100000000000" + zeros(8) + "0a000000" + "01000000" + zeros(64), wqe,
		WQE{Op: WQEWriteImm, Flags: WQELast, Mark: NewPosition(1, 10), Length: 0x20000, Offset: 0x10000, Bytes: 0x10000, Imm: 0x12345678, Key: 0x11223344, Addr: 1 << 32, DataAt: 0x100000}},
	{"WQE, compare and swap", "07" + "03" + "0000" + "00000000" + "08000000" + "00000000" + "08000000" + "00000000" + "44332211" + "00000000" +
		"0010000000000000" + "0000000000000000" + "0100000000000000" + "0b000000" + "01000000" + "0200000000000000" + zeros(56), wqe,
		WQE{Op: WQECmpSwap, Flags: WQEFirst | WQELast, Mark: NewPosition(1, 11), Length: 8, Bytes: 8, Key: 0x11223344, Addr: 0x1000, CompareAdd: 1, Swap: 2}},
	{"CQE", "0b000000" + "0100" + "0c" + "00" + "8877665544332211", of(ParseCQE), CQE{Index: 11, Status: StatusRNR, Timer: 12, Orig: 0x1122334455667788}},
	{"Greeting", "016e7473" + "00000000" + "0000100000000000", of(ParseGreeting), Greeting{WindowBytes: 1 << 20}},
	{"Greeting with a secret", "016e7473" + "01000000" + "0000100000000000", of(ParseGreeting), Greeting{1 << 20, true}},
	{"Message", "67736d5f62746ee4" + "0010000000000000" + "0400000000000000" + "67736d5f62746ee4", of(ParseMessage), Message{To: 0x1000, Bytes: 4}},
}

// Each format against bytes written out by hand, and each strict prefix refused.
func TestFormats(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			b, err := hex.DecodeString(f.bytes)
			if err != nil {
				t.Fatal(err)
			}
			v, enc, rest, ok := f.parse(append(bytes.Clone(b), 0xaa))
			if !ok || !reflect.DeepEqual(v, f.want) || len(rest) != 1 {
				t.Fatalf("parsed %+v, rest %d, %v\nwant %+v", v, len(rest), ok, f.want)
			}
			if !bytes.Equal(enc, b) {
				t.Errorf("encoded %x\nwant    %x", enc, b)
			}
			for n := range b {
				if _, _, rest, ok := f.parse(b[:n]); ok || len(rest) != n {
					t.Errorf("a prefix of %d bytes was accepted", n)
				}
			}
		})
	}
}

// Counts beyond the room there is, which the original leaves unchecked.
func TestCountsAreBounded(t *testing.T) {
	slot := func(c interface{ Append([]byte) []byte }) []byte {
		return append(c.Append(nil), make([]byte, CommandBytes)...)[:CommandBytes-CommandHeaderBytes]
	}
	for _, c := range []struct{ total, count, ok int }{
		{MaxCreatePieces, MaxCreatePieces, 1}, {MaxPieces, MaxCreatePieces, 1}, {MaxPieces + 1, 1, 0}, {1, 2, 0},
		{MaxPieces, MaxCreatePieces + 1, 0}, {MaxPieces, -1, 0}, {-1, -1, 0},
	} {
		b := slot(MRCreate{})
		b[24], b[25], b[26], b[27] = byte(c.total), byte(c.total>>8), byte(c.total>>16), byte(c.total>>24)
		b[28], b[29], b[30], b[31] = byte(c.count), byte(c.count>>8), byte(c.count>>16), byte(c.count>>24)
		if _, _, ok := ParseMRCreate(b); ok != (c.ok == 1) {
			t.Errorf("MR_CREATE with %d of %d pieces: %v", c.count, c.total, ok)
		}
	}
	for _, n := range []uint32{MaxAppendPieces, MaxAppendPieces + 1, 1 << 28, ^uint32(0)} {
		b := slot(MRAppend{})
		b[8], b[9], b[10], b[11] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
		if _, _, ok := ParseMRAppend(b); ok != (n <= MaxAppendPieces) {
			t.Errorf("MR_APPEND of %d pieces: %v", n, ok)
		}
	}
	for _, n := range []uint32{MaxAddresses, MaxAddresses + 1, 1 << 28, ^uint32(0)} {
		b := slot(Addresses{})
		b[0], b[1], b[2], b[3] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
		if _, _, ok := ParseAddresses(b); ok != (n <= MaxAddresses) {
			t.Errorf("%d addresses: %v", n, ok)
		}
	}
	if MaxCreatePieces < 13 || MaxAppendPieces < 14 {
		t.Errorf("%d and %d pieces a command: the original has room for 13 and 15", MaxCreatePieces, MaxAppendPieces)
	}
}

// Pieces that do not belong to a message.
func TestWQEsThatCannotBe(t *testing.T) {
	good := WQE{Op: WQEWrite, Flags: WQEFirst, Length: 100, Bytes: 50}
	for name, change := range map[string]func(*WQE){
		"operation 0":             func(w *WQE) { w.Op = 0 },
		"unknown operation":       func(w *WQE) { w.Op = numWQEOps },
		"unknown flag":            func(w *WQE) { w.Flags |= 0x80 },
		"longer than a message":   func(w *WQE) { w.Length, w.Bytes = 1<<31+1, 1 },
		"beyond the message":      func(w *WQE) { w.Offset, w.Bytes, w.Flags = 60, 50, WQELast },
		"offset that wraps":       func(w *WQE) { w.Offset, w.Bytes, w.Flags = ^uint32(0)-10, 50, WQELast },
		"bytes that wrap":         func(w *WQE) { w.Bytes = ^uint32(0) },
		"last that is not":        func(w *WQE) { w.Flags |= WQELast },
		"last without the flag":   func(w *WQE) { w.Bytes = 100 },
		"first that is not":       func(w *WQE) { w.Offset = 10 },
		"no bytes":                func(w *WQE) { w.Bytes = 0 },
		"a SEND placed already":   func(w *WQE) { w.Op = WQESend; w.Flags |= WQEPlaced },
		"an atomic of 100 bytes":  func(w *WQE) { w.Op = WQEFetchAdd },
		"half an atomic":          func(w *WQE) { w.Op, w.Length, w.Bytes = WQEFetchAdd, 8, 4 },
		"an atomic without First": func(w *WQE) { w.Op, w.Length, w.Bytes, w.Flags = WQECmpSwap, 8, 8, WQELast },
	} {
		w := good
		if b := w.Append(nil); !new(WQE).Parse(b) {
			t.Fatal("the good one is refused")
		}
		change(&w)
		if b := w.Append(nil); new(WQE).Parse(b) {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestVersionsAgree(t *testing.T) {
	for _, c := range []struct {
		a, b Versions
		want uint16
		ok   bool
	}{
		{NewVersions(1, 1), NewVersions(1, 1), 1, true}, {NewVersions(1, 3), NewVersions(2, 5), 3, true},
		{NewVersions(1, 1), NewVersions(2, 3), 0, false}, {0, NewVersions(0, 1), 0, false}, {NewVersions(3, 2), NewVersions(1, 9), 0, false},
	} {
		for _, x := range [][2]Versions{{c.a, c.b}, {c.b, c.a}} {
			if got, ok := x[0].Agree(x[1]); ok != c.ok || ok && got != c.want {
				t.Errorf("%#x and %#x: %d, %v", x[0], x[1], got, ok)
			}
		}
	}
}

func TestRingArithmetic(t *testing.T) {
	if i := Index(3); i.Since(Index(0xfffffffe)) != 5 || i.Slot(2) != 1 {
		t.Error("indices do not wrap")
	}
	for n, ok := range map[uint32]bool{0: false, 1: true, 3: false, 64: true, MaxRing: true, MaxRing * 2: false} {
		if ValidCap(n, MaxRing) != ok {
			t.Errorf("capacity %d: %v", n, !ok)
		}
	}
	if p := NewPosition(7, 9); p.Generation() != 7 || p.Index() != 9 {
		t.Error("position")
	}
	if HelloWordAt(1) == HelloWordAt(2) || HelloWordAt(1) != HelloWordAt(3) || HelloDataAt(2)+MaxHelloBytes > InfoBytes {
		t.Error("places of hello phases")
	}
	if w := NewHelloWord(2, 64); w.Phase() != 2 || w.Size() != 64 {
		t.Error("hello word")
	}
}

// Valid rings, and their contents.
func TestDatagramRings(t *testing.T) {
	good := DatagramRing{At: 0x1000, Cap: 4096, Max: 2040}
	if !good.Valid() || good.PostedAt() != 0x1000 || good.TakenAt() != 0x1040 || good.BytesAt() != 0x1080 || good.Size() != 4096+128 {
		t.Errorf("%+v: %v, its parts at %#x, %#x, %#x, %#x bytes", good, good.Valid(), good.PostedAt(), good.TakenAt(), good.BytesAt(), good.Size())
	}
	for name, r := range map[string]DatagramRing{
		"empty": {}, "no power of two": {0x1000, 4095, 100}, "too large": {0x1000, 2 * MaxDatagramRing, 100}, "too small": {0x1000, 8, 1},
		"not aligned": {0x1004, 4096, 100}, "for nothing": {0x1000, 4096, 0}, "longest does not fit twice": {0x1000, 4096, 2041}, "wraps": {0x1000, 4096, ^uint32(0)},
	} {
		if r.Valid() {
			t.Errorf("%s: %+v is accepted", name, r)
		}
	}
	for n, want := range map[uint32]uint32{1: 16, 8: 16, 9: 24, 256: 264, 1514: 1528} {
		if got := RecordBytes(n); got != want {
			t.Errorf("%d bytes take %d, want %d", n, got, want)
		}
	}
}

// A line is read as the whole WQE is, if it is a short SEND; else it is not.
func TestLines(t *testing.T) {
	for _, c := range []struct {
		w  WQE
		ok bool
	}{
		{WQE{Op: WQESend, Flags: WQEFirst | WQELast}, true},
		{WQE{Op: WQESendImm, Flags: WQEFirst | WQELast | WQEDone, Done: 3, Imm: 7, Length: MaxShortSend, Bytes: MaxShortSend, Inline: [MaxInline]byte{MaxShortSend - 1: 9}}, true},
		{WQE{Op: WQESend, Flags: WQEFirst | WQELast, Length: MaxShortSend + 1, Bytes: MaxShortSend + 1}, false},
		{WQE{Op: WQESend, Flags: WQEFirst, Length: 8, Bytes: 4}, false},
		{WQE{Op: WQESend, Flags: WQELast, Length: 8, Bytes: 4, Offset: 4}, false},
		{WQE{Op: WQEWrite, Flags: WQEFirst | WQELast, Length: 8, Bytes: 8}, false},
		{WQE{Op: WQESend, Flags: WQEFirst | WQELast | 0x80, Length: 8, Bytes: 8}, false},
		{WQE{Flags: WQEFirst | WQELast}, false},
	} {
		c.w.Mark = NewPosition(1, 5)
		var got, want WQE
		b := c.w.Append(nil)
		line := [LineBytes]byte(b)
		if ok := got.ParseLine(&line); ok != c.ok || ok && (!want.Parse(b) || got != want) {
			t.Errorf("%+v: %v, %+v", c.w, ok, got)
		}
		if c.ok {
			var put [LineBytes]byte
			if c.w.PutLine(&put); put != line {
				t.Errorf("%x, want %x", put, line)
			}
		}
	}
}

// FuzzFormats parses anything as everything. Input that parses encodes to the same bytes but for
// the reserved ones, and parses again to the same values.
func FuzzFormats(f *testing.F) {
	for _, c := range formats {
		b, _ := hex.DecodeString(c.bytes)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range formats {
			v, enc, rest, ok := c.parse(b)
			if !ok {
				continue
			}
			again, enc2, _, ok := c.parse(append(enc, rest...))
			if !ok || !reflect.DeepEqual(v, again) || !bytes.Equal(enc, enc2) || len(enc) != len(b)-len(rest) {
				t.Fatalf("%s: %+v, then %+v", c.name, v, again)
			}
		}
	})
}
