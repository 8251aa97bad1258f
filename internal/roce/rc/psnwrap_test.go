// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"encoding/binary"
	"testing"

	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// TestAtomicReplayAfterPSNsWrap has an atomic with the PSN of an earlier one, 2^24 PSNs later, and
// wants a duplicate to get the later result.
func TestAtomicReplayAfterPSNsWrap(t *testing.T) {
	s := script.New(t, newRC)
	binary.NativeEndian.PutUint64(s.Memory, 10)
	add := s.At(script.Request(wire.RCFetchAdd, peerPSN, nil), 0, 0)
	add.AtomicETH.SwapAdd = 5
	s.Recv(add)
	s.WantPacket("first", wire.RCAtomicAcknowledge, peerPSN)
	s.Machine.(*rc.QP).Expect(peerPSN)
	for _, why := range []string{"second", "duplicate"} {
		s.Recv(add)
		if p := s.WantPacket(why, wire.RCAtomicAcknowledge, peerPSN); p.AtomicAck.Orig != 15 {
			t.Errorf("%s: the word was %d, want 15", why, p.AtomicAck.Orig)
		}
	}
	s.WantCount("replayed", roce.AtomicReplay, 1)
}
