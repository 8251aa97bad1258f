// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/testkit/rig"
	wire "verbena/internal/wire/iwarp"
)

// foreign is a peer made of nothing but a socket of package net.
type foreign struct {
	*net.TCPConn
	t   *testing.T
	crc bool
}

// meet connects a foreign initiator to e, with these flags in its Request.
func meet(e *endpoint, crc, markers bool) *foreign {
	t := e.Node.T.(*testing.T)
	t.Helper()
	connected := make(chan error, 2)
	l, err := Of(e.Node.Eng).Listen(loopbacks[false], 1, func(s *Stream) StreamEvents {
		return &setup{to: e, stream: s, failed: connected, conn: mpa.NewResponder(monotime.Now(), mpa.Options{RTR: mpa.RTRs(mpa.RTRWrite)})}
	})
	if err == nil {
		err = l.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f := &foreign{c.(*net.TCPConn), t, crc}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(rig.Timeout))
	request := wire.MPAFrame{Revision: 2, CRC: crc, Markers: markers, IsEnhanced: true, Enhanced: wire.Enhanced{PeerToPeer: true, WriteRTR: true, IRD: 4, ORD: 4}}
	f.Write(request.Append(nil))
	reply := make([]byte, wire.MPAFrameBytes+wire.EnhancedBytes)
	if _, err := io.ReadFull(c, reply); err != nil {
		t.Fatal(err)
	}
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
	f.segment(wire.Header{Control: wire.NewControl(wire.RDMAWrite, true), STag: 1}, nil) // ready to receive
	return f
}

func (f *foreign) segment(h wire.Header, payload []byte) { f.Write(f.fpdu(nil, h, payload)) }

// fpdu appends one to b.
func (f *foreign) fpdu(b []byte, h wire.Header, payload []byte) []byte {
	return wire.AppendFPDU(b, append(h.Append(nil), payload...), f.crc)
}

// TestIWARPMarkers sends to a peer that asks for markers, which finds every
// pointer and CRC right and all bytes in their places.
func TestIWARPMarkers(t *testing.T) {
	for _, crc := range []bool{false, true} {
		e := iwarpEndpoint(newNode(t, policy.Nap), 100_003)
		f := meet(e, crc, true)
		e.Pattern(len(e.Buf), 1)
		e.Request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: uint32(len(e.Buf)), RKey: 77, RemoteAddr: 1000})
		got, d := make([]byte, len(e.Buf)), mpa.Deframer{CRC: crc, Markers: true}
		var ulpdu []byte
		for last := false; !last; {
			b := make([]byte, 5000)
			n, err := f.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			for b = b[:n]; len(b) > 0; {
				ev, data, rest := d.Next(b)
				b = rest
				switch ev {
				case mpa.Started:
					ulpdu = ulpdu[:0]
				case mpa.Data:
					ulpdu = append(ulpdu, data...)
				case mpa.Ended:
					h, payload, ok := wire.ParseHeader(ulpdu)
					if !ok || h.Opcode != wire.RDMAWrite || h.STag != 77 {
						t.Fatalf("%+v", h)
					}
					copy(got[h.TO-1000:], payload)
					last = h.Last
				case mpa.BadCRC, mpa.BadMarker:
					t.Fatalf("event %v", ev)
				}
			}
		}
		e.Want(ib.WCRDMAWrite, ib.WCSuccess)
		e.Lock()
		if !bytes.Equal(got, e.Buf) {
			t.Error("bytes are not where they belong")
		}
		e.Unlock()
		e.Close()
	}
}

// TestIWARPChunks has the peer's stream come in pieces of any size, cut anywhere:
// SENDs and WRITEs in segments of any size end up the same.
func TestIWARPChunks(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		e := iwarpEndpoint(newNode(t, policy.Nap), 1<<18)
		f := meet(e, seed%2 == 0, false)
		const half = 1 << 17
		want := make([]byte, len(e.Buf)) // the first half is the receive's, the second written to
		var stream []byte
		msn := uint32(1)
		for range 6 {
			e.RecvOf(half)
			n := rng.IntN(half)
			if rng.IntN(3) == 0 {
				n = rng.IntN(200)
			}
			for i := range n {
				want[i] = byte(rng.Uint32())
			}
			at := rng.IntN(half)
			w := rng.IntN(half - at)
			for i := range w {
				want[half+at+i] = byte(rng.Uint32())
			}
			for off := 0; ; {
				k := min(1+rng.IntN(60000), w-off)
				h := wire.Header{Control: wire.NewControl(wire.RDMAWrite, off+k == w), STag: e.Region.RKey(), TO: uint64(half + at + off)}
				stream = f.fpdu(stream, h, want[half+at+off:][:k])
				if off += k; off == w {
					break
				}
			}
			for off := 0; ; {
				k := min(1+rng.IntN(60000), n-off)
				h := wire.Header{Control: wire.NewControl(wire.Send, off+k == n), MSN: msn, MO: uint32(off)}
				stream = f.fpdu(stream, h, want[off:][:k])
				if off += k; off == n {
					break
				}
			}
			msn++
			for len(stream) > 0 {
				k := min(1+rng.IntN([]int{40, 3000, 90000}[rng.IntN(3)]), len(stream))
				f.Write(stream[:k])
				stream = stream[k:]
			}
			if wc := e.Want(ib.WCRecv, ib.WCSuccess); int(wc.ByteLen) != n {
				t.Fatalf("seed %d: %d bytes, want %d", seed, wc.ByteLen, n)
			}
			e.Lock()
			same := bytes.Equal(e.Buf, want)
			e.Unlock()
			if !same {
				t.Fatalf("seed %d: memory differs", seed)
			}
		}
		e.Close()
	}
}

// TestIWARPPeerDies ends the peer within an FPDU, by a reset as a killed process
// does, and by an early FIN: the torn message completes nowhere.
func TestIWARPPeerDies(t *testing.T) {
	for _, reset := range []bool{true, false} {
		e := iwarpEndpoint(newNode(t, policy.Nap), 1<<16)
		f := meet(e, true, false)
		e.Recv()
		e.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 100, RKey: 77})
		send := func(msn uint32) []byte {
			return f.fpdu(nil, wire.Header{Control: wire.NewControl(wire.Send, true), MSN: msn}, make([]byte, 30000))
		}
		f.Write(send(1)) // behind a large segment the next is read straight to its place
		e.Want(ib.WCRecv, ib.WCSuccess)
		e.Recv()
		f.Write(send(2)[:29000])
		rig.Until(t, "it has come", func() bool { return e.Node.Counter("placed_direct_bytes") > 20000 })
		if reset {
			f.SetLinger(0)
			f.Close()
		} else {
			f.CloseWrite()
		}
		for range 2 { // the READ and the receive
			if wc := e.Await(); wc.Status != ib.WCWRFlushErr {
				t.Errorf("reset %v: %v %v", reset, wc.Opcode, wc.Status)
			}
		}
		rig.Until(t, "the stream is given up", func() bool { return e.Ended.Load() == 1 })
		if e.State() != ib.QPErr || !e.Region.Idle() {
			t.Errorf("reset %v: %v, memory held %v", reset, e.State(), !e.Region.Idle())
		}
		e.Close()
	}
}

// TestIWARPBadCRC has one bit flipped on the way: the message does not complete
// and the peer is told why.
func TestIWARPBadCRC(t *testing.T) {
	e := iwarpEndpoint(newNode(t, policy.Nap), 1<<16)
	f := meet(e, true, false)
	e.Recv()
	bad := f.fpdu(nil, wire.Header{Control: wire.NewControl(wire.Send, true), MSN: 1}, make([]byte, 20000))
	bad[10000] ^= 4
	f.Write(bad)
	e.Want(ib.WCRecv, ib.WCWRFlushErr)
	answer, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	n, rest, ok := wire.ParseLength(answer)
	if !ok || len(rest) < n {
		t.Fatalf("the answer is %x", answer)
	}
	h, body, _ := wire.ParseHeader(rest[:n])
	if m, _, ok := wire.ParseTermMsg(body); !ok || h.Opcode != wire.Terminate || m.TermError != wire.MPACRCError {
		t.Errorf("%v %+v", h.Opcode, m)
	}
	if e.Node.Counter("mpa_crc_errors") != 1 {
		t.Error("the error is not counted")
	}
	rig.Until(t, "the stream is given up", func() bool { return e.Ended.Load() == 1 })
	e.Close()
}
