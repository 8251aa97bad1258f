// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// Packets that go as a run are those that go one by one: memory in short pieces has no runs. The
// window, requests for acknowledgements, the ends of messages, of entries of the list and of pages
// fall between and within runs.
func TestRunsAreThePacketsOneByOne(t *testing.T) {
	packets := func(mtu ib.MTU, allRETH bool, piece, page int,
		post func() []script.WR) (all []wire.Packet, bursts int) {
		s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.PathMTU = mtu }))
		if allRETH {
			readsRETHs(s)
		}
		copy(s.Memory, script.Bytes(len(s.Memory), 3))
		list := post()
		key := s.MR.LKey()
		if page > 0 {
			r, err := s.Mem.AllocFast(script.PD, len(s.Memory)/page+1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Map(slices.Collect(slices.Chunk(s.Memory, page)), s.SGE(0, 0).Addr); err != nil {
				t.Fatal(err)
			}
			key = r.LKey()
			s.Post(script.RegMR(r, r.RKey(), fastAccess))
		}
		for i := range list {
			n := int(list[i].Length)
			for at := 0; at < n; {
				k := min(piece, n-at)
				g := s.SGE(at, k)
				g.LKey = key
				list[i].SGE = append(list[i].SGE, g)
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
			for _, allRETH := range []bool{false, true} {
				for name, post := range map[string]func() []script.WR{
					"WRITE":      func() []script.WR { return []script.WR{script.Write(n)} },
					"WRITE, two": func() []script.WR { return []script.WR{script.Write(n), script.Write(n)} },
					"SEND":       func() []script.WR { return []script.WR{script.Send(n)} },
					"SEND, two":  func() []script.WR { return []script.WR{script.Send(n), script.Send(n)} },
				} {
					t.Run(fmt.Sprintf("%v %s %d %v", mtu, name, n, allRETH), func(t *testing.T) {
						want, bursts := packets(mtu, allRETH, 700, 0, post)
						for _, c := range [][2]int{{n, 0}, {4096, 0}, {2100, 0}, {n, 4096}, {n, 2500}} {
							got, also := packets(mtu, allRETH, c[0], c[1], post)
							if !reflect.DeepEqual(got, want) || also != bursts {
								t.Errorf("entries of %d, pages of %d: %d packets in %d bursts differ from %d in %d",
									c[0], c[1], len(got), also, len(want), bursts)
							}
						}
					})
				}
			}
		}
	}
}

// A run ends with the entry of the list in which it starts.
func TestEntryLeft(t *testing.T) {
	list := []ib.SGE{{Length: 10}, {Length: 0}, {Length: 7}}
	for _, c := range []struct {
		off  uint32
		want int
	}{{0, 10}, {9, 1}, {10, 7}, {16, 1}, {17, 0}} {
		if got := rc.EntryLeft(list, c.off); got != c.want {
			t.Errorf("%d bytes from %d on, want %d", got, c.off, c.want)
		}
	}
}
