// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/queue"
)

var sizes = []int{0, 1, 3, 511, 513, 1424, 1425, 4096, 70000, 300000}

// TestTransfers moves messages of many sizes each way, with each framing and
// however the stream is cut.
func TestTransfers(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, markers := range []bool{false, true} {
			for _, mss := range []int{536, 1448, 65483} {
				t.Run(name(crc, markers, mss), func(t *testing.T) {
					rnd := rand.New(rand.NewPCG(uint64(mss), 1))
					a, b := pair(t, func(o *options) { o.crc, o.markers, o.mss = crc, markers, mss })
					for i, n := range sizes {
						src := a.fill(0, n, i)
						back := b.fill(400000, n, i+50)
						b.postRecv(uint64(i), b.sge(0, n/2), b.sge(500000, n-n/2+1))
						a.post(a.send(0, n), a.write(0, n, b, 1000), a.read(400000, n, b, 400000))
						carryBy(a, b, random(rnd), func() bool { return rnd.IntN(2) == 0 })
						a.wantWC("SEND", a.wrid-2, ib.WCSuccess)
						a.wantWC("WRITE", a.wrid-1, ib.WCSuccess)
						if wc := a.wantWC("READ", a.wrid, ib.WCSuccess); wc.ByteLen != uint32(n) {
							t.Errorf("READ of %d completes with %d", n, wc.ByteLen)
						}
						if wc := b.wantRecv("SEND", uint64(i), ib.WCSuccess); wc.ByteLen != uint32(n) || wc.Opcode != ib.WCRecv {
							t.Errorf("received %+v", wc)
						}
						b.wantBytes("second element", 500000, src[n/2:])
						b.wantBytes("WRITE", 1000, src[:n])
						a.wantBytes("READ", 400000, back)
					}
					a.wantQuiet("end")
					b.wantQuiet("end")
					a.freed()
					b.freed()
				})
			}
		}
	}
}

// TestBothWays has both ends send at once.
func TestBothWays(t *testing.T) {
	a, b := pair(t)
	a.fill(0, 50000, 1)
	b.fill(0, 50000, 2)
	a.post(a.write(0, 9, b, 300000)) // the responder may not speak first
	carry(a, b)
	a.wantWC("first", 1, ib.WCSuccess)
	for i := range 8 {
		a.postRecv(uint64(i), a.sge(100000, 50000))
		b.postRecv(uint64(i), b.sge(100000, 50000))
	}
	for range 8 {
		a.post(a.send(0, 50000), a.read(200000, 30000, b, 0))
		b.post(b.read(200000, 30000, a, 0), b.send(0, 50000))
	}
	carry(a, b)
	for i := range 8 {
		a.wantWC("send", uint64(2+2*i), ib.WCSuccess)
		a.wantWC("read", uint64(3+2*i), ib.WCSuccess)
		b.wantWC("read", uint64(1+2*i), ib.WCSuccess)
		b.wantWC("send", uint64(2+2*i), ib.WCSuccess)
		a.wantRecv("recv", uint64(i), ib.WCSuccess)
		b.wantRecv("recv", uint64(i), ib.WCSuccess)
	}
	a.wantBytes("READ", 200000, b.bytes[:30000])
	b.wantBytes("READ", 200000, a.bytes[:30000])
	a.wantBytes("SEND", 100000, b.bytes[:50000])
}

// TestCompletionMeansTheBufferIsFree: a WRITE is complete when it is in the
// socket, not before, whatever the peer does with it.
func TestCompletionMeansTheBufferIsFree(t *testing.T) {
	a, b := pair(t)
	a.nothing = true
	a.post(a.write(0, 3000, b, 0), a.send(0, 10))
	if !a.s.PollOutput(0, a.burst) {
		t.Fatal("nothing is sent")
	}
	total := a.burst.Bytes()
	a.s.HandleWritten(0, 3000) // of a bit more
	if len(a.sends.list) != 0 {
		t.Error("completed before its last byte was written")
	}
	a.s.HandleWritten(0, total-3000-10)
	a.wantWC("WRITE", 1, ib.WCSuccess)
	if len(a.sends.list) != 0 {
		t.Error("SEND completed before its CRC was written")
	}
	a.s.HandleWritten(0, 10)
	a.wantWC("SEND", 2, ib.WCSuccess)
	if a.mr.Idle() {
		t.Error("the burst does not hold the memory it points at")
	}
	a.burst.Reset()
	a.freed()
}

// TestCompletionsKeepTheirOrder: a SEND behind a READ waits for it.
func TestCompletionsKeepTheirOrder(t *testing.T) {
	a, b := pair(t)
	b.postRecv(1, b.sge(0, 100))
	a.post(a.read(0, 5000, b, 1000), a.send(6000, 100))
	a.pump()
	if len(a.sends.list) != 0 {
		t.Fatal("SEND overtook the READ")
	}
	carry(a, b)
	a.wantWC("READ", 1, ib.WCSuccess)
	a.wantWC("SEND", 2, ib.WCSuccess)
}

// TestFence holds back fenced requests until READs are done.
func TestFence(t *testing.T) {
	a, b := pair(t)
	w := a.write(0, 100, b, 0)
	w.Flags = ib.SendFence
	a.post(a.read(0, 100, b, 5000), w)
	carry(a, b)
	a.wantWC("READ", 1, ib.WCSuccess)
	a.wantWC("WRITE", 2, ib.WCSuccess)
	b.wantUntouched("the READ's bytes went back", 0, 100)

	a.nothing = true
	a.post(a.read(0, 100, b, 5000), w)
	a.s.PollOutput(0, a.burst)
	if a.burst.Len() != 1 {
		t.Errorf("%d segments, want the READ alone", a.burst.Len())
	}
}

// TestReadDepth never has more READs outstanding than agreed on.
func TestReadDepth(t *testing.T) {
	a, b := pair(t, func(o *options) { o.ord, o.ird = 2, 2 })
	a.nothing = true
	for range 5 {
		a.post(a.read(0, 100, b, 5000))
	}
	a.s.PollOutput(0, a.burst)
	if a.burst.Len() != 2 {
		t.Errorf("%d READs are asked for, want 2", a.burst.Len())
	}
	a.burst.Reset()

	a, b = pair(t, func(o *options) { o.ord = 0 })
	a.post(a.read(0, 100, b, 5000))
	a.wantWC("no depth", 1, ib.WCLocQPOpErr)
}

// TestReadOfSeveralElements is several READ requests and one completion.
func TestReadOfSeveralElements(t *testing.T) {
	a, b := pair(t, func(o *options) { o.ord = 1 })
	src := b.fill(0, 3000, 9)
	w := a.read(0, 3000, b, 0)
	w.SGE = []ib.SGE{a.sge(100, 1000), a.sge(0, 0), a.sge(5000, 500), a.sge(9000, 1500)}
	a.post(w, a.read(20000, 10, b, 0))
	// Meanwhile the other end reads from here: neither waits for the other.
	carry(a, b)
	if wc := a.wantWC("READ", 1, ib.WCSuccess); wc.ByteLen != 3000 {
		t.Errorf("%d bytes", wc.ByteLen)
	}
	a.wantWC("READ", 2, ib.WCSuccess)
	a.wantBytes("first", 100, src[:1000])
	a.wantBytes("second", 5000, src[1000:1500])
	a.wantBytes("third", 9000, src[1500:])
}

// TestReadsCrossing: two ends with one READ of several elements each and depth
// 1 answer each other between the requests.
func TestReadsCrossing(t *testing.T) {
	a, b := pair(t, func(o *options) { o.ord, o.ird = 1, 1 })
	a.post(a.write(0, 1, b, 0))
	carry(a, b)
	a.wantWC("first", 1, ib.WCSuccess)
	for _, e := range []struct{ at, from *end }{{a, b}, {b, a}} {
		w := e.at.read(0, 3000, e.from, 50000)
		w.SGE = []ib.SGE{e.at.sge(1000, 1000), e.at.sge(2000, 1000), e.at.sge(3000, 1000)}
		e.at.post(w)
	}
	carry(a, b)
	a.wantWC("READ", 2, ib.WCSuccess)
	b.wantWC("READ", 1, ib.WCSuccess)
}

// TestAtomics of RFC 7306.
func TestAtomics(t *testing.T) {
	a, b := pair(t)
	binary.NativeEndian.PutUint64(b.bytes[64:], 100)
	a.post(a.fadd(0, b, 64, 11), a.cas(8, b, 64, 111, 7), a.cas(16, b, 64, 111, 8), a.read(24, 8, b, 64))
	carry(a, b)
	for i := range 4 {
		if wc := a.wantWC("atomic", uint64(i+1), ib.WCSuccess); wc.ByteLen != 8 {
			t.Errorf("%d bytes", wc.ByteLen)
		}
	}
	for i, want := range []uint64{100, 111, 7, 7} {
		if got := binary.NativeEndian.Uint64(a.bytes[8*i:]); got != want {
			t.Errorf("atomic %d brings %d, want %d", i, got, want)
		}
	}
}

// TestImmediate: a WRITE with immediate is a WRITE and a message behind it.
func TestImmediate(t *testing.T) {
	a, b := pair(t)
	for i, n := range []int{0, 10, 5000} {
		src := a.fill(0, n, i)
		b.postRecv(uint64(i), b.sge(900000, 4))
		w := a.write(0, n, b, 2000)
		w.Opcode, w.Imm = ib.WRRDMAWriteWithImm, 0xcafe0000+uint32(i)
		if i == 2 {
			w.Flags = ib.SendSolicited
		}
		a.post(w)
		carry(a, b)
		a.wantWC("WRITE", uint64(i+1), ib.WCSuccess)
		if got := b.recvs.solicited[0]; got != (i == 2) {
			t.Errorf("solicited %v", got)
		}
		wc := b.wantRecv("immediate", uint64(i), ib.WCSuccess)
		if wc.Opcode != ib.WCRecvRDMAWithImm || wc.Flags != ib.WCWithImm || wc.ImmData != w.Imm || wc.ByteLen != uint32(n) {
			t.Errorf("%+v", wc)
		}
		b.wantBytes("WRITE", 2000, src)
	}
	b.wantUntouched("the receive's buffer", 900000, 4)
}

// TestExtensionsMustBeAgreed: no RFC 7306 message goes to a peer that may not know it, and SEND
// with immediate is refused there.
func TestExtensionsMustBeAgreed(t *testing.T) {
	for _, c := range []struct {
		extensions bool
		op         ib.WROpcode
	}{{false, ib.WRRDMAWriteWithImm}, {false, ib.WRAtomicCmpAndSwp}, {false, ib.WRAtomicFetchAndAdd}, {true, ib.WRSendWithImm}, {true, ib.WRFlush}, {true, ib.WRAtomicWrite}} {
		a, b := pair(t, func(o *options) { o.extensions = c.extensions })
		w := a.write(0, 8, b, 0)
		w.Opcode = c.op
		a.post(w)
		if wc := a.wantWC(c.op.String(), 1, ib.WCLocQPOpErr); wc.VendorErr != ib.VendorOpcode {
			t.Errorf("%v: %v", c.op, wc.VendorErr)
		}
		a.wantState("stopped", ib.QPErr)
	}
}

// TestSolicited tells a SEND with SE from one without.
func TestSolicited(t *testing.T) {
	a, b := pair(t)
	for i, f := range []ib.SendFlags{0, ib.SendSolicited} {
		b.postRecv(1, b.sge(0, 3000))
		w := a.send(0, 3000)
		w.Flags = f
		a.post(w)
		carry(a, b)
		if b.recvs.solicited[0] != (i == 1) {
			t.Errorf("flags %v: solicited %v", f, b.recvs.solicited[0])
		}
		b.wantRecv("SEND", 1, ib.WCSuccess)
	}
}

// TestInline sends the bytes that were copied when posted.
func TestInline(t *testing.T) {
	a, b := pair(t)
	b.postRecv(1, b.sge(0, 100))
	a.post(queue.SendWQE{Opcode: ib.WRSend, Flags: ib.SendInline, Length: 5, Inline: []byte("hello")})
	carry(a, b)
	a.wantWC("SEND", 1, ib.WCSuccess)
	b.wantRecv("SEND", 1, ib.WCSuccess)
	b.wantBytes("SEND", 0, []byte("hello"))
}

// TestInvalidate: SEND with invalidate voids a key before it completes.
func TestInvalidate(t *testing.T) {
	a, b := pair(t)
	mr, err := b.table.AllocFast(pd, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mr.Map([][]byte{b.bytes[:4096]}, 0x9000); err != nil {
		t.Fatal(err)
	}
	b.postRecv(1, b.sge(8000, 100))
	b.post(queue.SendWQE{Opcode: ib.WRRegMR, Region: mr, RKey: mr.RKey(), Access: ib.AccessLocalWrite | ib.AccessRemoteWrite})
	a.post(a.write(0, 1, b, 20000)) // the responder's turn comes with it
	carry(a, b)
	a.wantWC("WRITE", 1, ib.WCSuccess)
	b.wantWC("REG_MR", 1, ib.WCSuccess)
	w := a.write(0, 100, b, 0)
	w.RKey, w.RemoteAddr = mr.RKey(), 0x9000
	inv := a.send(0, 10)
	inv.Opcode, inv.InvalidateKey = ib.WRSendWithInv, mr.RKey()
	a.post(w, inv)
	carry(a, b)
	a.wantWC("WRITE", 2, ib.WCSuccess)
	a.wantWC("SEND", 3, ib.WCSuccess)
	if wc := b.wantRecv("SEND", 1, ib.WCSuccess); wc.Flags != ib.WCWithInv || wc.InvalidatedRKey != mr.RKey() {
		t.Errorf("%+v", wc)
	}
	a.post(w)
	carry(a, b)
	a.wantWC("WRITE to a key that is gone completes all the same", 4, ib.WCSuccess)
	b.wantState("found out", ib.QPErr)
	a.wantState("told", ib.QPErr)
}

// TestUnsignaled makes no completion.
func TestUnsignaled(t *testing.T) {
	a, b := pair(t, func(o *options) { o.signalAll = false })
	w := a.write(0, 10, b, 0)
	w.Flags = ib.SendSignaled
	a.post(a.write(0, 10, b, 0), a.read(0, 10, b, 100), w)
	carry(a, b)
	a.wantWC("the last", 3, ib.WCSuccess)
	a.wantQuiet("the others")
}

// TestResponderWaits: it sends nothing before the initiator has, in
// client-server mode its first message, in peer-to-peer mode the RTR.
func TestResponderWaits(t *testing.T) {
	a, b := pair(t)
	b.post(b.write(0, 10, a, 0))
	b.wantQuiet("RFC 5044, 7.1.2")
	a.wantQuiet("nothing to say")
	if b.s.PeerReady() {
		t.Error("the peer has not spoken")
	}
	a.post(a.write(0, 10, b, 0))
	carry(a, b)
	b.wantWC("then", 1, ib.WCSuccess)

	for _, k := range []mpa.RTR{mpa.RTREmpty, mpa.RTRWrite, mpa.RTRRead} {
		a, b := pair(t, func(o *options) { o.rtr, o.ird, o.ord = k, 0, 0 })
		b.post(b.write(0, 10, a, 0))
		a.pump()
		if len(a.out) == 0 {
			t.Fatalf("%v: no RTR", k)
		}
		carry(a, b)
		b.wantWC(k.String(), 1, ib.WCSuccess)
		a.wantQuiet(k.String())
		if !b.s.PeerReady() || !a.s.PeerReady() {
			t.Errorf("%v: not ready", k)
		}
	}
}
