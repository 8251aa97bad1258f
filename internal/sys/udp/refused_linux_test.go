// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"net/netip"
	"testing"
	"time"
)

// TestRefused sends to a port that nobody has, and to one that somebody has: the
// socket hears of the first, if it wants to, and goes on.
func TestRefused(t *testing.T) {
	for _, lo := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(lo)
		gone, err := Listen(addr, 0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		nobody := gone.LocalAddr()
		gone.Close()
		peer, err := Listen(addr, 0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		for _, wants := range []bool{true, false} {
			s, err := Listen(addr, 0, Options{Errors: wants})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			b := NewRxBatch()
			told := 0
			send := func(dst netip.AddrPort) {
				if _, err := s.WriteBatch([]Datagrams{{Dst: dst, Iov: [][]byte{[]byte("hello")}}}); err != nil {
					t.Fatal(err)
				}
				if n, err := s.ReadBatch(b); n != 0 || err != nil {
					t.Fatalf("%d messages, %v", n, err)
				}
				for dst, ok := s.Refused(); ok; dst, ok = s.Refused() {
					told++
					if dst != nobody {
						t.Errorf("%v is refused, want %v", dst, nobody)
					}
				}
			}
			for end := time.Now().Add(20 * time.Second); wants && told == 0; { // ICMP is limited
				if send(nobody); time.Now().After(end) {
					t.Fatalf("%v: nothing is heard of a port that nobody has", addr)
				}
			}
			for range 10 {
				send(peer.LocalAddr())
			}
			if !wants && told > 0 {
				t.Errorf("%v: heard of %d refusals, and did not want to", addr, told)
			}
			got := 0
			for end := time.Now().Add(20 * time.Second); got == 0; {
				if got, err = peer.ReadBatch(b); err != nil || time.Now().After(end) {
					t.Fatalf("nothing came to who is there: %v", err)
				}
			}
			for n := 1; n > 0; {
				n, _ = peer.ReadBatch(b)
			}
		}
	}
}
