// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/testkit/talk"
	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

const flight = 5 * time.Microsecond

// losing returns the fates of packets that take a flight each, but for some that are lost.
func losing(lost ...int) func(int) talk.Fate {
	return func(n int) talk.Fate {
		f := talk.Fate{Flight: flight}
		for _, l := range lost {
			f.Lost = f.Lost || l == n
		}
		return f
	}
}

// soon makes the flights short: nothing is sent again before an answer has come.
func soon(fate func(int) talk.Fate) func(int) talk.Fate {
	return func(n int) talk.Fate {
		f := fate(n)
		f.Flight /= 10
		return f
	}
}

// flights returns the flight of each packet in nanoseconds: -1 is not known, -2 is lost.
func flights(tl *Timeline) (list []int64) {
	for i, f := range tl.Packets.Flight {
		switch {
		case tl.Packets.Flags[i]&GivenUp != 0:
			list = append(list, -2)
		case f == None:
			list = append(list, -1)
		default:
			list = append(list, int64(f))
		}
	}
	return list
}

// TestJoinedEnds: captures of both ends become one connection with its flights, however far apart
// the clocks are, in whatever order the files come. A packet that was sent again is lost only if it
// did not arrive.
func TestJoinedEnds(t *testing.T) {
	alone := read(t, talk.Lossy(t))
	for _, ahead := range []time.Duration{0, 100 * time.Millisecond, -100 * time.Millisecond} {
		for _, told := range []bool{false, true} {
			for _, swap := range []bool{false, true} {
				t.Run(fmt.Sprint(ahead, told, swap), func(t *testing.T) {
					a, b := talk.Ends{Ahead: ahead, Told: told, Fate: losing(1)}.Split(t, talk.Lossy(t))
					if swap {
						a, b = b, a
					}
					tl := read(t, a, b)
					if len(tl.Conns) != 1 {
						t.Fatalf("%d connections: %q", len(tl.Conns), tl.Conns[1].Captures)
					}
					want := strings.Replace(strings.ReplaceAll(strings.Join(kinds(alone), ", "), " lost", ""), "sent, sent", "sent, sent lost", 1)
					if got := strings.Join(kinds(tl), ", "); got != want {
						t.Errorf("\n got %s\nwant %s", got, want)
					}
					for i, f := range flights(tl) {
						if want := int64(flight); f != want && (i != 1 || f != -2) {
							t.Errorf("packet %d: flight %d", i, f)
						}
					}
					c, o := tl.Conns[0], alone.Conns[0]
					if c.A.Lost != 1 || c.A.Repeated != o.A.Repeated || c.A.Operations != o.A.Operations || c.B.CNPs != o.B.CNPs || c.B.Marked != o.B.Marked || c.A.QPN != 0x11 || c.B.QPN != 0x22 || c.A.Base != o.A.Base {
						t.Errorf("%+v\n%+v\nwant %+v\n%+v", c.A, c.B, o.A, o.B)
					}
					if c.A.RTTMin < int64(2*flight) || len(tl.Ops) != len(alone.Ops) || tl.Ops[0].Repeated != 2 || len(tl.Samples) != 2 {
						t.Errorf("least round trip %d, operations %+v", c.A.RTTMin, tl.Ops)
					}
					if c.Flight != int64(flight) {
						t.Errorf("least flight %v", c.Flight)
					}
					clock := "is 100ms ahead"
					if (ahead < 0) != swap {
						clock = "is 100ms behind"
					}
					if ahead != 0 && !strings.Contains(c.Captures, clock) {
						t.Errorf("%q, want %q", c.Captures, clock)
					}
				})
			}
		}
	}
}

// long writes n SENDs, with an acknowledgement 40 µs behind each and, for those that fate loses, a
// repeat a millisecond later. It returns the fates of all packets.
func long(t *testing.T, n int, fate func(r *rand.Rand, again bool) talk.Fate) ([]byte, []talk.Fate) {
	c, rng := talk.New(t), rand.New(rand.NewPCG(7, 7))
	var all []talk.Fate
	for i := range uint32(n) {
		for again := false; ; again = true {
			f := fate(rng, again)
			if i == 0 {
				f = talk.Fate{Flight: flight}
			}
			c.Send(roce.RCSendOnly, i, 10)
			all = append(all, f)
			if !f.Lost {
				break
			}
			c.At += time.Millisecond
		}
		c.At += 40 * time.Microsecond
		c.Ack(i)
		all = append(all, talk.Fate{Flight: flight})
	}
	return c.Bytes(), all
}

// TestJoinedLossAndReordering: each packet has the fate that it had.
func TestJoinedLossAndReordering(t *testing.T) {
	capture, fates := long(t, 2000, func(r *rand.Rand, again bool) talk.Fate {
		f := talk.Fate{Flight: flight + time.Duration(r.IntN(200))*time.Microsecond}
		switch n := r.IntN(10); {
		case n == 0:
			f.Lost = true
		case again: // a repeat that is unseen or copied cannot be told from a packet that is late
		case n == 1:
			f.Unseen = true
		case n == 2:
			f.Copies = 1
		}
		return f
	})
	a, b := talk.Ends{Ahead: 100 * time.Millisecond, Fate: func(n int) talk.Fate { return fates[n] }}.Split(t, capture)
	tl := read(t, a, b)
	if len(tl.Conns) != 1 {
		t.Fatalf("%d connections: %q", len(tl.Conns), tl.Conns[1].Captures)
	}
	var want, got [4]int // lost, arrived, arrived only, nanoseconds
	for _, f := range fates {
		switch {
		case f.Lost && f.Unseen:
		case f.Lost:
			want[0]++
		case f.Unseen:
			want[2] += 1 + f.Copies
		default:
			want[1]++
			want[2] += f.Copies
			want[3] += int(f.Flight)
		}
	}
	for i, f := range flights(tl) {
		switch {
		case f == -2:
			got[0]++
		case tl.Packets.Flags[i]&Arrival != 0:
			got[2]++
		default:
			got[1]++
			got[3] += int(f)
		}
	}
	if got != want || want[0] < 100 || want[2] < 100 {
		t.Errorf("lost, arrived, only arrived, time: %v, want %v", got, want)
	}
	if c := tl.Conns[0]; c.A.Lost != uint64(want[0]) || !strings.Contains(fmt.Sprint(c.Findings), fmt.Sprintf("has it: %d packets of A", want[0])) {
		t.Errorf("%+v", c.Findings)
	}
}

// TestJoinedStreams: segments of TCP, and TRP's datagrams, are matched as those of RoCEv2.
func TestJoinedStreams(t *testing.T) {
	for name, c := range map[string]struct {
		capture []byte
		lost    int
		before  int // packets before the first of the timeline
	}{"iWARP": {talk.LossyIWARP(t), 11, 3}, "TRP": {talk.LossyTRP(t), 7, 0}} {
		t.Run(name, func(t *testing.T) {
			alone := read(t, c.capture)
			a, b := talk.Ends{Ahead: time.Second, Fate: soon(losing(c.lost))}.Split(t, c.capture)
			tl := read(t, a, b)
			if len(tl.Conns) != 1 || tl.Packets.Len() != alone.Packets.Len() || len(tl.Ops) != len(alone.Ops) {
				t.Fatalf("%d connections, %d packets, %d operations", len(tl.Conns), tl.Packets.Len(), len(tl.Ops))
			}
			for i, f := range flights(tl) {
				if lost := i == c.lost-c.before; (f == -2) != lost || !lost && f != int64(flight/10) {
					t.Errorf("packet %d: flight %d", i, f)
				}
			}
			if e := &tl.Conns[0].A; e.Lost != 1 || e.Repeated != 2 || e.Done != 3 {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestJoinedSegmentsThatWereCut: the sender's interface cuts a segment, or the receiver's joins
// several. All of it has arrived, with its last byte.
func TestJoinedSegmentsThatWereCut(t *testing.T) {
	part := func() []byte { return talk.TRPWrite(0, 0, false, 1000).Payload }
	stream := func(apart bool, at time.Duration) (a, b []byte) {
		c := talk.New(t)
		frame := iwarp.MPAFrame{CRC: true, Revision: 1}
		reply := frame
		reply.Reply = true
		s := c.Stream(frame, reply)
		c.At = at
		if apart {
			s.FPDUs(false, part())
			s.FPDUs(false, part())
			s.FPDUs(false, part())
		} else {
			s.FPDUs(false, part(), part(), part())
		}
		c.At = 60 * time.Microsecond
		s.Segment(true, pcap.Segment{}, nil)
		c.At = 80 * time.Microsecond
		s.FPDUs(false, part())
		return talk.Ends{Fate: soon(losing())}.Split(t, c.Bytes())
	}
	for _, cut := range []bool{true, false} {
		a, _ := stream(!cut, 20*time.Microsecond)
		_, b := stream(cut, 24*time.Microsecond)
		tl := read(t, a, b)
		want := 5 // set-up, data, acknowledgement, data
		if !cut {
			want = 7
		}
		if len(tl.Conns) != 1 || tl.Packets.Len() != want {
			t.Fatalf("cut %v: %d connections, %d packets: %v, %q", cut, len(tl.Conns), tl.Packets.Len(), kinds(tl), tl.Conns[0].Captures)
		}
		for i, f := range tl.Packets.Flight {
			if i >= 2 && (f == None || tl.Packets.Flags[i]&(GivenUp|Arrival) != 0) {
				t.Errorf("cut %v: packet %d: flight %d", cut, i, int32(f))
			}
		}
	}
}

// TestJoinedBurst: a burst that the sender's interface cuts arrives as its packets.
func TestJoinedBurst(t *testing.T) {
	var burst []roce.Packet
	for i := range uint32(4) {
		burst = append(burst, roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, PSN: ib.NewPSN(i)}, Payload: make([]byte, 64)})
	}
	a, b := talk.New(t), talk.New(t)
	a.Burst(-1, burst...)
	a.At = 20 * time.Microsecond
	a.Ack(3)
	b.At = flight
	for _, p := range burst {
		b.Packet(false, p)
	}
	b.At = 20*time.Microsecond - flight
	b.Ack(3)
	tl := read(t, a.Bytes(), b.Bytes())
	if len(tl.Conns) != 1 || tl.Packets.Len() != 5 {
		t.Fatalf("%d connections, %d packets", len(tl.Conns), tl.Packets.Len())
	}
	for i, f := range flights(tl) {
		if f < 0 {
			t.Errorf("packet %d: %d", i, f)
		}
	}
}

// TestJoinedCalls: the calls of each end are those of its file, at its own times.
func TestJoinedCalls(t *testing.T) {
	c := talk.New(t)
	c.Call("level=INFO msg=ibv_create_qp qp.qpn=0x000011", false)
	c.Call("level=DEBUG msg=ibv_post_send qpn=0x000011 wr_id=7 opcode=SEND bytes=10", false)
	c.Send(roce.RCSendOnly, 1, 10)
	c.At += 10 * time.Microsecond
	c.Call("level=DEBUG msg=completion qpn=0x000022 wr_id=9 status=success opcode=RECV", false)
	c.Ack(1)
	c.At += 10 * time.Microsecond
	c.Call("level=DEBUG msg=completion qpn=0x000011 wr_id=7 status=success opcode=SEND", false)
	a, b := talk.Ends{Ahead: 100 * time.Millisecond, Fate: losing()}.Split(t, c.Bytes())
	tl := read(t, a, b)
	if len(tl.Conns) != 1 || len(tl.Ops) != 1 || tl.Ops[0].Posted != 1 || tl.Ops[0].Completed != 3 {
		t.Fatalf("%d connections, %+v", len(tl.Conns), tl.Ops)
	}
	for i, want := range []int64{-2000, -1000, 11000, 23000} {
		if m := tl.Calls[i]; m.Time != want || m.Conn != 0 {
			t.Errorf("%s: %d, want %d, of connection %d", m.Text, m.Time, want, m.Conn)
		}
	}
}

// TestNotJoined: what cannot be joined stands by itself, with a sentence.
func TestNotJoined(t *testing.T) {
	a, b := talk.Ends{Fate: losing(1)}.Split(t, talk.Lossy(t))
	told, _ := talk.Ends{Told: true, Fate: losing(1)}.Split(t, talk.Lossy(t))
	later, _ := talk.Ends{Fate: losing()}.Split(t, otherTalk(t, 24*time.Hour, 100))
	years, _ := talk.Ends{Fate: losing()}.Split(t, otherTalk(t, 24*time.Hour, 0xfffffe))
	for name, c := range map[string]struct {
		files [][]byte
		conns int
		words string
	}{
		"the same file":      {[][]byte{a, a}, 2, "has captured the same end"},
		"the same end":       {[][]byte{told, told}, 2, "has captured the same end"},
		"other packets":      {[][]byte{a, later}, 2, "none of these packets"},
		"the packets again":  {[][]byte{a, years}, 2, "24h0m0s away"},
		"a third file":       {[][]byte{a, b, b}, 2, "already"},
		"the same, and both": {[][]byte{a, a, b}, 2, "has captured the same end"},
	} {
		t.Run(name, func(t *testing.T) {
			tl := read(t, c.files...)
			var all []string
			for _, c := range tl.Conns {
				all = append(all, c.Captures)
			}
			if len(tl.Conns) != c.conns || !strings.Contains(strings.Join(all, "\n"), c.words) {
				t.Errorf("%d connections: %q", len(tl.Conns), all)
			}
			var out bytes.Buffer
			if err := tl.WriteSummary(&out); err != nil || !strings.Contains(out.String(), c.words) {
				t.Errorf("%v: %s", err, &out)
			}
		})
	}
}

func otherTalk(t *testing.T, at time.Duration, psn uint32) []byte {
	c := talk.New(t)
	c.At = at
	c.Send(roce.RCRDMAWriteFirst, psn, 1024)
	c.Send(roce.RCRDMAWriteLast, psn+1, 1024)
	return c.Bytes()
}

// TestJoinedOneWay: without packets of the other end the clocks are taken to agree, unless packets
// would arrive before they leave.
func TestJoinedOneWay(t *testing.T) {
	c := talk.New(t)
	for i := range uint32(5) {
		c.Send(roce.UCSendOnly, i, 10)
	}
	capture := c.Bytes()
	for _, e := range []struct {
		talk.Ends
		want int64
	}{{talk.Ends{Fate: losing(2)}, int64(flight)}, {talk.Ends{Ahead: -time.Second, Told: true, Fate: losing(2)}, 0}} {
		a, b := e.Split(t, capture)
		tl := read(t, a, b)
		if got := flights(tl); !reflect.DeepEqual(got, []int64{e.want, e.want, -2, e.want, e.want}) {
			t.Errorf("%v", got)
		}
		if !strings.Contains(tl.Conns[0].Captures, "one way") {
			t.Errorf("%q", tl.Conns[0].Captures)
		}
	}
}

// TestClocksOfThreeFiles: clocks are compared through other files.
func TestClocksOfThreeFiles(t *testing.T) {
	edges := map[int][]clockEdge{0: {{2, 5}}, 2: {{0, -5}, {1, 7}}, 1: {{2, -7}}}
	if got := clocks(4, edges); !reflect.DeepEqual(got, []int64{0, 12, 5, 0}) {
		t.Error(got)
	}
}

// TestDriftingClocks: a clock that drifts more than packets travel does not turn the ends round.
func TestDriftingClocks(t *testing.T) {
	var w [clockWindows][2]extremes
	for i := range w {
		drift := int64(i) * 1_000_000
		w[i][0].add(drift + 5000)
		w[i][1].add(drift - 5000)
	}
	if e := compare(&w, -1); e.end != 0 || e.trip != 10000 {
		t.Errorf("%+v", e)
	}
}

// TestManyEqualPackets: packets that nothing tells apart are matched in their order.
func TestManyEqualPackets(t *testing.T) {
	c := talk.New(t)
	const n = 50_000
	c.Send(roce.RCSendOnly, 1, 10)
	c.At += 20 * time.Microsecond
	c.Ack(1)
	for range n {
		c.Answer(roce.CNP, 0, 0, 16)
	}
	a, b := talk.Ends{Told: true, Fate: func(i int) talk.Fate { return talk.Fate{Flight: flight, Lost: i > 1 && i%2 == 0} }}.Split(t, c.Bytes())
	tl := read(t, a, b)
	if tl.Packets.Len() != n+2 || tl.Joined != n/2+2 {
		t.Errorf("%d packets, %d joined", tl.Packets.Len(), tl.Joined)
	}
}

// TestJoinDamaged: whatever one of the captures has, the result is consistent.
func TestJoinDamaged(t *testing.T) {
	a, whole := talk.Ends{Ahead: time.Millisecond, Fate: losing(1)}.Split(t, talk.Lossy(t))
	for i := 0; i < len(whole); i += 3 {
		b := bytes.Clone(whole)
		b[i] ^= 0x15
		var sources []Source
		for _, f := range [][]byte{a, b} {
			r, err := pcapread.NewReader(bytes.NewReader(f))
			if err != nil {
				continue
			}
			sources = append(sources, Source{Name: "x", Reader: r})
		}
		tl, err := Read(t.Context(), sources...)
		if err != nil {
			t.Fatal(err)
		}
		consistent(t, tl)
	}
}
