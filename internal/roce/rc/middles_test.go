// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"fmt"
	"reflect"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// Packets that go as a run are those that go one by one: memory in short pieces has no runs. The
// window, requests for acknowledgements and the ends of messages fall between and within runs.
func TestRunsAreThePacketsOneByOne(t *testing.T) {
	packets := func(mtu ib.MTU, piece int, post func() []script.WR) (all []wire.Packet, bursts int) {
		s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.PathMTU = mtu }))
		copy(s.Memory, script.Bytes(len(s.Memory), 3))
		list := post()
		for i := range list {
			n := int(list[i].Length)
			for at := 0; at < n; {
				k := min(piece, n-at)
				list[i].SGE = append(list[i].SGE, s.SGE(at, k))
				at += k
			}
		}
		s.Post(list...)
		for range 20 {
			got := s.Packets()
			if len(got) == 0 {
				break
			}
			all = append(all, got...)
			s.Recv(script.Ack(got[len(got)-1].PSN, 0))
		}
		return all, s.Bursts
	}
	for _, mtu := range []ib.MTU{ib.MTU1024, ib.MTU4096} {
		for _, n := range []int{mtu.Bytes(), 3 * mtu.Bytes(), 30 << 10, 64 << 10, 70001} {
			for name, post := range map[string]func() []script.WR{
				"WRITE":     func() []script.WR { return []script.WR{script.Write(n)} },
				"SEND":      func() []script.WR { return []script.WR{script.Send(n)} },
				"SEND, two": func() []script.WR { return []script.WR{script.Send(n), script.Send(n)} },
			} {
				t.Run(fmt.Sprintf("%v %s %d", mtu, name, n), func(t *testing.T) {
					want, bursts := packets(mtu, 700, post)
					got, also := packets(mtu, n, post)
					if !reflect.DeepEqual(got, want) || also != bursts {
						t.Errorf("%d packets in %d bursts differ from %d in %d", len(got), also, len(want), bursts)
					}
				})
			}
		}
	}
}
