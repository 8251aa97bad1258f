// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"encoding/binary"
	"testing"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/ntb"
)

// talk is the datagrams of a kind, between two hosts of the simulation. Each says in which
// life of its sender's link it was sent and which one of that life it is: of
// one life of the receiver's link they must be all of one life, from the first
// on, without a gap.
type talk struct {
	life uint64 // of our link
	sent uint32 // in this life

	of   uint64 // the life of the peer's that we hear of
	rcvd uint32 // in this life
}

const talkHeader = 16

// talkRoom holds a message that is said, and one that is heard.
var talkRoom [2][wire.MaxFrameBytes]byte

// life names a life of the host's link.
func (h *host) life() uint64 { return uint64(h.process)<<32 | h.node.ch.Count[0] }

// say fills p with the nth message of a kind in a life.
func say(p []byte, kind int, life uint64, n uint32) {
	binary.LittleEndian.PutUint64(p, life)
	binary.LittleEndian.PutUint32(p[8:], n)
	binary.LittleEndian.PutUint32(p[12:], uint32(len(p)))
	for i := talkHeader; i < len(p); i++ {
		p[i] = byte(i*7 + kind + int(n)*31 + int(life))
	}
}

// talk sends datagrams now and then, and takes those that have come.
func (h *host) talk() {
	w := h.w
	for kind, k := range []*talk{&h.mads, &h.frames} {
		if k.life != h.life() {
			*k = talk{life: h.life()}
		}
		if w.rnd.IntN(8) == 0 {
			longest, send := wire.ManagementBytes, h.node.SendMAD
			if kind == 1 {
				longest, send = max(h.node.MaxFrame(), talkHeader), h.node.SendFrame
			}
			size := w.rnd.IntN(200)
			if w.rnd.IntN(16) == 0 {
				size = w.rnd.IntN(longest - talkHeader + 1)
			}
			p := talkRoom[0][:talkHeader+size]
			if say(p, kind, k.life, k.sent); send(w.now, p) {
				k.sent++
			}
		}
		if w.rnd.IntN(3) > 0 {
			h.hear(kind, k)
		}
	}
}

func (h *host) hear(kind int, k *talk) {
	w := h.w
	poll := []func(monotime.Time, []byte) (int, bool){h.node.PollMAD, h.node.PollFrame}[kind]
	got, want := talkRoom[0][:], talkRoom[1][:]
	for range 4 {
		n, ok := poll(w.now, got)
		if !ok {
			return
		}
		if n < talkHeader {
			w.fatalf("%s: a datagram of %d bytes", h.name, n)
		}
		life := binary.LittleEndian.Uint64(got)
		if k.rcvd == 0 {
			k.of = life
		}
		if say(want[:n], kind, k.of, k.rcvd); string(got[:n]) != string(want[:n]) {
			w.fatalf("%s: datagram of life %#x, number %d, want %#x, number %d, or other bytes", h.name, life, binary.LittleEndian.Uint32(got[8:]), k.of, k.rcvd)
		}
		k.rcvd++
	}
}

// heard waits until both hosts have heard of each other, on links that are up.
func (w *simWorld) heard() {
	w.t.Helper()
	w.until("both are heard", func() bool {
		for _, h := range []*host{w.a, w.b} {
			if h.mads.rcvd == 0 || h.frames.rcvd == 0 || h.mads.of != h.other().life() || h.frames.of != h.other().life() {
				return false
			}
		}
		return true
	})
}

// Datagrams alone, and crashes, resets and lost back ends at every step.
func TestDatagramsSurviveFaults(t *testing.T) {
	for step := range less(300, 40) {
		w := newSimWorld(t, uint64(1000+step), 0)
		for range 4 * step {
			w.step()
		}
		switch step % 3 {
		case 0, 1:
			w.crash(w.b)
		case 2:
			w.a.node.Reset(w.now)
		}
		w.heard()
		for range 2000 {
			w.step()
		}
		if c := w.a.node.Count; c[RcvdMADs] < 10 || c[RcvdFrames] < 10 {
			t.Errorf("seed %d: too quiet: %v", w.seed, c)
		}
	}
}
