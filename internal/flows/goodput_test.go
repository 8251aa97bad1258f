// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
)

var (
	update = flag.Bool("update", false, "play all cells and rows, and write them to testdata")
	only   = flag.String("only", "", "play the rows with this text, and with -update only the tables "+
		"of goodput with it in their titles")
)

const goodputFile = "testdata/goodput.txt"

const goodputHead = `Goodput in MB/s of payload, by loss each way (rows) and round trip (columns).
One flow, a buffer of 1 MB with tail drop each way, messages of 64 KiB, or 1 MiB where the
product of bandwidth and delay is above 2 MB, four such products posted, and at least 128.
* marks cells in which a model of TCP, CUBIC or BBR, has over 2 % more.
Written by: go test ./internal/flows -run TestGoodput -update
`

// table is a part of the file: a kind of flow at a rate and path MTU.
type table struct {
	kind    Kind
	gbits   int64
	mtu     ib.MTU
	goBackN bool
}

func (t table) String() string {
	s := fmt.Sprintf("%v, %d Gb/s, path MTU %d", t.kind, t.gbits, t.mtu.Bytes())
	if t.goBackN {
		s += ", responder that goes back N"
	}
	return s
}

// roundTrips are the columns: longer ones at 10 Gb/s are for the patient.
func (t table) roundTrips() []monotime.Duration {
	us := []monotime.Duration{100, 1000, 10_000, 50_000, 100_000}
	if t.gbits == 10 {
		return us[:4]
	}
	return us
}

// losses are the rows, of a million.
var losses = []int{0, 1000, 10_000, 50_000}

func tables() (list []table) {
	for _, kind := range []Kind{Write, Read, Send, TRP, Cubic, BBR} {
		for _, gbits := range []int64{1, 10} {
			for _, mtu := range []ib.MTU{ib.MTU1024, ib.MTU4096} {
				list = append(list, table{kind: kind, gbits: gbits, mtu: mtu})
			}
		}
	}
	for _, kind := range []Kind{Write, Read, Send} {
		for _, mtu := range []ib.MTU{ib.MTU1024, ib.MTU4096} {
			list = append(list, table{kind: kind, gbits: 1, mtu: mtu, goBackN: true})
		}
	}
	return list
}

func (t table) scenario(loss int, us monotime.Duration) Scenario {
	return Scenario{Kind: t.kind, Rate: t.gbits * 1e9, MTU: t.mtu, Loss: loss,
		RTT: us * monotime.Microsecond, GoBackN: t.goBackN}
}

// quick reports whether every run of the test plays a cell, not only -update.
func (t table) quick(us monotime.Duration) bool {
	return t.kind < Cubic && t.gbits == 1 && t.mtu == ib.MTU4096 && (us == 1000 || us == 10_000)
}

// short reports whether a cell is played with -short, too.
func (t table) short(loss int, us monotime.Duration) bool { return loss == 10_000 && us == 1000 }

// play fills a cell. Little more is repeated than was lost, but where the responder goes back N.
func (t table) play(loss int, us monotime.Duration) (string, error) {
	s := t.scenario(loss, us)
	r := Run(s)
	if r.Dead > 0 {
		return "dead", fmt.Errorf("%v: %s", &s, r.Why)
	}
	got := fmt.Sprintf("%.3g", r.Goodput/1e6)
	if t.kind < Cubic && !t.goBackN && loss > 0 &&
		float64(r.Repeated) > mostRepeated*float64(r.Lost()) {
		return got, fmt.Errorf("%v: %d repeated, %d lost", &s, r.Repeated, r.Lost())
	}
	return got, nil
}

type cell struct {
	table table
	loss  int
	us    monotime.Duration
}

// The goodput of each cell is that of testdata: a change of it is one to look at.
func TestGoodput(t *testing.T) {
	old, err := os.ReadFile(goodputFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	known := parse(string(old))
	var todo []cell
	for _, tab := range tables() {
		for _, loss := range losses {
			for _, us := range tab.roundTrips() {
				quick := tab.quick(us)
				if quick && testing.Short() && !tab.short(loss, us) {
					t.Logf("%v, loss %d of a million, %d µs is left out: run without -short", tab, loss, us)
					quick = false
				}
				if *update && strings.Contains(tab.String(), *only) || !*update && quick {
					todo = append(todo, cell{tab, loss, us})
				}
			}
		}
	}
	played := playAll(t, todo)
	if *update {
		for c, old := range known {
			if _, ok := played[c]; !ok {
				played[c] = old
			}
		}
		if err := os.WriteFile(goodputFile, []byte(format(played)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, c := range todo {
		if got, want := played[c], known[c]; got != want {
			t.Errorf("%v, loss %g %%, round trip %v: %s MB/s, %s has %q; -update plays all cells anew",
				c.table, float64(c.loss)/1e4, c.us*monotime.Microsecond, got, goodputFile, want)
		}
	}
}

// playAll plays cells, several at a time.
func playAll(t *testing.T, todo []cell) map[cell]string {
	played := map[cell]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan cell)
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for c := range next {
				got, err := c.table.play(c.loss, c.us)
				mu.Lock()
				played[c] = got
				if err != nil {
					t.Error(err)
				}
				mu.Unlock()
			}
		}()
	}
	for _, c := range todo {
		next <- c
	}
	close(next)
	wg.Wait()
	return played
}

func format(played map[cell]string) string {
	var b strings.Builder
	b.WriteString(goodputHead)
	for _, tab := range tables() {
		fmt.Fprintf(&b, "\n%v\n%8s", tab, "loss")
		for _, us := range tab.roundTrips() {
			fmt.Fprintf(&b, "%10v", us*monotime.Microsecond)
		}
		for _, loss := range losses {
			fmt.Fprintf(&b, "\n%7g%%", float64(loss)/1e4)
			for _, us := range tab.roundTrips() {
				c := cell{tab, loss, us}
				mark := ""
				if isBehind(c, played) {
					mark = "*"
				}
				fmt.Fprintf(&b, "%10s", played[c]+mark)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// parse reads the output of format.
func parse(text string) map[cell]string {
	known := map[cell]string{}
	lines := strings.Split(text, "\n")
	for _, tab := range tables() {
		at := slices.Index(lines, tab.String())
		for i := range losses {
			if at < 0 || at+2+i >= len(lines) {
				break
			}
			fields := strings.Fields(lines[at+2+i])
			for k, us := range tab.roundTrips() {
				if k+1 < len(fields) {
					known[cell{tab, losses[i], us}] = strings.TrimSuffix(fields[k+1], "*")
				}
			}
		}
	}
	return known
}

// A file that was written is read as it was.
func TestGoodputFile(t *testing.T) {
	played := map[cell]string{}
	for i, tab := range tables() {
		for _, loss := range losses {
			for k, us := range tab.roundTrips() {
				played[cell{tab, loss, us}] = fmt.Sprint(i*1000 + loss/1000*10 + k)
			}
		}
	}
	known := parse(format(played))
	for c, want := range played {
		if known[c] != want {
			t.Fatalf("%v: %q read, %q written", c, known[c], want)
		}
	}
}

// tcpMargin allows for rounding in the file, and for headers: TCP has 38 bytes more in a packet.
const tcpMargin = 0.98

// isBehind reports whether a model of TCP has more than a cell of WRITE, READ, SEND or TRP.
func isBehind(c cell, played map[cell]string) bool {
	if c.table.kind >= Cubic || c.table.goBackN {
		return false
	}
	got, err := strconv.ParseFloat(played[c], 64)
	for _, kind := range []Kind{Cubic, BBR} {
		tcp := c
		tcp.table.kind = kind
		if f, _ := strconv.ParseFloat(played[tcp], 64); err != nil || got < tcpMargin*f {
			return true
		}
	}
	return false
}

// At 1 Gb/s each kind of flow is ahead of models of TCP, BBR and CUBIC: with round trips of 1 and
// 10 ms and loss of up to 1 %. A mark in the file names the other cells in which it is not.
func TestAheadOfTCP(t *testing.T) {
	text, err := os.ReadFile(goodputFile)
	if err != nil {
		t.Fatal(err)
	}
	known := parse(string(text))
	behind := 0
	for c := range known {
		if !isBehind(c, known) {
			continue
		}
		behind++
		if c.table.gbits == 1 && (c.us == 1000 || c.us == 10_000) && c.loss <= 10_000 {
			t.Errorf("%v, loss %g %%, round trip %v: %s MB/s, less than TCP", c.table,
				float64(c.loss)/1e4, c.us*monotime.Microsecond, known[c])
		}
	}
	t.Logf("behind in %d cells", behind)
	if format(known) != string(text) {
		t.Error("the marks are not those of the figures: -update -only nothing writes them")
	}
}
