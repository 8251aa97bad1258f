// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// TestXRCReadsOfOtherProcess reads and changes the memory of another process by a target of this
// one, between messages for both.
func TestXRCReadsOfOtherProcess(t *testing.T) {
	const size = 1 << 20
	f := domainFile(t)
	here, from, to := sharedTarget(t, f, 2*size)
	b := startBox(t, f.Name())
	data := bytes.Clone(from.buf[:size])
	word := func(off int) uint64 { return binary.NativeEndian.Uint64(from.buf[off:]) }
	ids := uint64(0)
	post := func(n ib.SRQN, op ib.WROpcode, off, bytes int, remote uint64, set func(*verbs.SendWR)) {
		t.Helper()
		ids++
		wr := verbs.SendWR{ID: ids, Opcode: op, Flags: ib.SendSignaled, RemoteSRQN: n,
			RemoteAddr: b.addr + remote, RKey: b.rkey, SGList: []ib.SGE{from.mr.SGE(off, bytes)}}
		if set != nil {
			set(&wr)
		}
		_, err := from.qp.PostSend(wr)
		check(t, err)
	}
	b.recv(1, 3*size, 64)
	here.post(2, 0, 64)
	b.recv(3, 3*size+64, 64)
	post(b.srq, ib.WRRDMAWrite, 0, size, 4096, nil)
	post(b.srq, ib.WRRDMARead, size, size-1, 4096, nil)
	post(b.srq, ib.WRSend, 0, 64, 0, nil)
	post(here.srq.Num(), ib.WRSend, 1, 64, 0, nil)
	post(b.srq, ib.WRAtomicFetchAndAdd, 0, 8, 4096+size-8, func(w *verbs.SendWR) { w.CompareAdd = 5 })
	post(b.srq, ib.WRAtomicCmpAndSwp, 8, 8, 4096+size-8, func(w *verbs.SendWR) {
		w.CompareAdd, w.Swap = binary.NativeEndian.Uint64(data[size-8:])+5, 99
	})
	post(b.srq, ib.WRSend, 64, 64, 0, nil)
	post(b.srq, ib.WRAtomicWrite, 24, 8, 0, func(w *verbs.SendWR) {
		w.SGList, w.Inline, w.Flags = nil, []byte("at once!"), w.Flags|ib.SendInline
	})
	post(b.srq, ib.WRFlush, 0, 0, 4096, func(w *verbs.SendWR) {
		w.SGList, w.FlushType, w.FlushLevel, w.FlushLength = nil, ib.FlushGlobal, ib.FlushRange, 8
	})
	post(b.srq, ib.WRRDMARead, 16, 8, 4096+size-8, nil)
	post(b.srq, ib.WRRDMARead, 32, 8, 0, nil)
	post(b.srq, ib.WRRDMARead, 40, 0, 0, nil)
	for i, wc := range from.poll(int(ids)) {
		check(t, wc.Err())
		if wc.WRID != uint64(i+1) {
			t.Errorf("completion of %d in place %d", wc.WRID, i+1)
		}
	}
	if !bytes.Equal(from.buf[size:2*size-1], data[:size-1]) {
		t.Error("a long READ has other bytes")
	}
	if was := binary.NativeEndian.Uint64(data[size-8:]); word(0) != was || word(8) != was+5 || word(16) != 99 {
		t.Errorf("atomics found %#x, %#x and left %d, want %#x, %#x, 99", word(0), word(8), word(16), was, was+5)
	}
	if got := string(from.buf[32:40]); got != "at once!" {
		t.Errorf("ATOMIC WRITE left %q", got)
	}
	b.want(1, ib.WCRecv, 64, to.QPN(), 0, crc32.ChecksumIEEE(data[:64]))
	b.want(3, ib.WCRecv, 64, to.QPN(), 0, crc32.ChecksumIEEE(data[64:128]))
	if got, want := b.do("sum", 0, 4096, size-8), fmt.Sprint(crc32.ChecksumIEEE(data[:size-8])); got != want {
		t.Errorf("the other process has sum %s, want %s", got, want)
	}
	if wc := here.one(); wc.WRID != 2 {
		t.Errorf("completion of %d here", wc.WRID)
	}
}

// TestXRCReadsOfTwoProcesses reads from two others at once, with a window full of READs.
func TestXRCReadsOfTwoProcesses(t *testing.T) {
	const size, n = 100_000, 60
	f := domainFile(t)
	_, from, _ := sharedTarget(t, f, n*size)
	boxes := []*box{startBox(t, f.Name()), startBox(t, f.Name())}
	for i, b := range boxes {
		_, err := from.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, RemoteSRQN: b.srq,
			RemoteAddr: b.addr, RKey: b.rkey, SGList: []ib.SGE{from.mr.SGE(i*1000, size)}})
		check(t, err)
		from.one()
	}
	want := [][]byte{bytes.Clone(from.buf[:size]), bytes.Clone(from.buf[1000:][:size])}
	clear(from.buf)
	for i := range n {
		b := boxes[i*i/3%2]
		_, err := from.qp.PostSend(verbs.SendWR{ID: uint64(i), Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, RemoteSRQN: b.srq,
			RemoteAddr: b.addr, RKey: b.rkey, SGList: []ib.SGE{from.mr.SGE(i*size, size-i)}})
		check(t, err)
	}
	for i, wc := range from.poll(n) {
		check(t, wc.Err())
		if got := from.buf[i*size:][:size-i]; wc.WRID != uint64(i) || !bytes.Equal(got, want[i*i/3%2][:size-i]) {
			t.Fatalf("completion of %d in place %d, or its bytes are others", wc.WRID, i)
		}
	}
}

// TestXRCReadOfKilledProcess: the READ fails that waits for it.
func TestXRCReadOfKilledProcess(t *testing.T) {
	f := domainFile(t)
	_, from, _ := sharedTarget(t, f, boxBytes)
	b := startBox(t, f.Name())
	read := verbs.SendWR{Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, RemoteSRQN: b.srq,
		RemoteAddr: b.addr, RKey: b.rkey, SGList: []ib.SGE{from.mr.SGE(0, boxBytes)}}
	_, err := from.qp.PostSend(read)
	check(t, err)
	wantStatus(t, from.one().Status, ib.WCSuccess)
	for range 8 {
		_, err = from.qp.PostSend(read)
		check(t, err)
	}
	b.kill()
	failed := ib.WCSuccess
	for _, wc := range from.poll(8) {
		if failed == ib.WCSuccess {
			failed = wc.Status
		} else {
			wantStatus(t, wc.Status, ib.WCWRFlushErr)
		}
	}
	// All eight may have been answered before it was killed.
	if failed != ib.WCSuccess && failed != ib.WCRemOpErr && failed != ib.WCRemAccessErr {
		t.Error(failed)
	}
}
