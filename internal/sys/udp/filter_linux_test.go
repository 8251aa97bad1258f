// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"
)

// A filter sees a datagram from its UDP header on, over IPv4 and IPv6.
func TestFilter(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		s, err := Listen(netip.MustParseAddr(addr), 0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		send := func() (got string) {
			t.Helper()
			for _, p := range []string{"a1", "b2", ""} {
				if _, err := s.WriteBatch([]Datagrams{{Dst: s.LocalAddr(), Iov: [][]byte{[]byte(p)}}}); err != nil {
					t.Fatal(err)
				}
			}
			for b := NewRxBatch(); ; {
				n, err := s.ReadBatch(b)
				if err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					return got
				}
				for i := range n {
					for j := range b.Message(i).Segments() {
						got += string(b.Message(i).Segment(j)) + " "
					}
				}
			}
		}
		onlyB := []bpf.Instruction{
			bpf.LoadAbsolute{Off: 8, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 'b', SkipTrue: 1},
			bpf.RetConstant{Val: 0},
			bpf.RetConstant{Val: 1<<32 - 1},
		}
		for _, c := range []struct {
			prog []bpf.Instruction
			want string
		}{{nil, "a1 b2  "}, {onlyB, "b2 "}, {onlyB, "b2 "}, {nil, "a1 b2  "}} {
			if err := s.Filter(c.prog); err != nil {
				t.Fatal(err)
			}
			if got := send(); got != c.want {
				t.Errorf("%s: %q came through %d instructions, not %q", addr, got, len(c.prog), c.want)
			}
		}
	}
}
