// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"verbena/internal/stats"
)

// busy returns two processes; n grows with each poll.
func busyProcesses(n uint64) []stats.Snapshot {
	at := time.Unix(1700000000, 0).Add(time.Duration(n) * time.Second)
	pair := func(qpn uint32, sent, lost uint64) stats.QueuePair {
		return stats.QueuePair{QPN: qpn, Type: "RC", State: "RTS", Via: "shared-memory", Peer: netip.MustParseAddrPort("10.0.0.2:4791"),
			Counters: []stats.Counter{{Name: "sent_bytes", Value: sent}, {Name: "lost_pkts", Value: lost}}}
	}
	process := func(pid int, command string, sent, lost uint64) stats.Snapshot {
		return stats.Snapshot{PID: pid, Command: command, Time: at, Devices: []stats.Device{{Name: "roce_lo", Kind: "roce",
			Counters:   []stats.Counter{{Name: "sent_bytes", Value: sent}, {Name: "lost_pkts", Value: lost}},
			QueuePairs: []stats.QueuePair{pair(uint32(pid)<<4, sent/4, 0), pair(uint32(pid)<<4+1, sent/2, lost)}}}}
	}
	return []stats.Snapshot{process(7, "lossy", 1000*n, 30*n), process(9, "[red]fast", 5_000_000*n, 0)}
}

func TestTopSorts(t *testing.T) {
	var before rates
	before.note(busyProcesses(1))
	all := busyProcesses(2)
	for _, c := range []struct {
		v    view
		want string
	}{
		{view{}, "9 7"},
		{view{order: byTrouble}, "7 9"},
		{view{order: byNumber}, "7 9"},
		{view{match: "LOSS"}, "7"},
		{view{match: "none"}, ""},
		{view{of: &process{9, "[red]fast"}}, "0x000091 0x000090"},
		{view{of: &process{9, "[red]fast"}, order: byNumber}, "0x000090 0x000091"},
		{view{of: &process{7, "lossy"}, order: byTrouble}, "0x000071 0x000070"},
		{view{of: &process{8, "gone"}}, ""},
	} {
		_, rows := c.v.lines(all, &before)
		var got []string
		for _, l := range rows {
			got = append(got, l.cells[0])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, want %s", c.v, got, c.want)
		}
	}
	_, rows := (&view{}).lines(all, &before)
	if got := strings.Join(rows[0].cells, "|"); got != "9|[red]fast|roce_lo|2|5.0 MB/s|-|-|-" {
		t.Errorf("%s", got)
	}
	if rows[1].trouble != 30 {
		t.Errorf("%+v", rows[1])
	}
	if got := (&view{of: &process{8, "gone"}}).title(all, time.Now()); !strings.Contains(got, "has ended") {
		t.Errorf("%s", got)
	}
}

// patience is for a machine that does much else.
const patience = 30 * time.Second

// watched is the view on a simulated terminal.
type watched struct {
	*testing.T
	screen tcell.SimulationScreen
	done   chan error
	shown  atomic.Value // text of the draw before
}

// watch shows two busy processes.
func watch(t *testing.T) *watched {
	dir, err := os.MkdirTemp("", "vs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var n atomic.Uint64
	for i, name := range []string{"1", "2"} {
		s, err := stats.Serve(dir, name, func() stats.Snapshot { return busyProcesses(n.Add(1))[i] }, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
	}
	w := &watched{T: t, screen: tcell.NewSimulationScreen("UTF-8"), done: make(chan error, 1)}
	if err := w.screen.Init(); err != nil {
		t.Fatal(err)
	}
	w.screen.SetSize(80, 24)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	view := newTop(filter{}, dir, 100*time.Millisecond)
	view.app.SetAfterDrawFunc(func(tcell.Screen) { w.shown.Store(w.text()) })
	go func() { w.done <- view.run(ctx, w.screen) }()
	return w
}

// text returns the lines of the terminal. Only the goroutine that draws may call it.
func (w *watched) text() string {
	cells, width, _ := w.screen.GetContents()
	var b strings.Builder
	for i, c := range cells {
		if i > 0 && i%width == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(string(c.Runes))
	}
	return b.String()
}

// wants waits until the terminal shows all of these.
func (w *watched) wants(all ...string) {
	w.Helper()
	text := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		text, _ = w.shown.Load().(string)
		missing := false
		for _, s := range all {
			missing = missing || !strings.Contains(text, s)
		}
		if !missing {
			return
		}
		select {
		case err := <-w.done:
			w.Fatalf("it has ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	w.Fatalf("no %q in\n%s", all, text)
}

func (w *watched) types(s string) {
	for _, r := range s {
		w.screen.InjectKey(tcell.KeyRune, r, tcell.ModNone)
	}
}

// At 80 columns all of a line is shown; the view follows a resize, keys, and ends.
func TestTopOnATerminal(t *testing.T) {
	w := watch(t)
	w.wants("verbena top", "2 processes", "pid", "trouble", "rtt", "[red]fast", "lossy", "MB/s", "q quit")
	w.types("e")
	w.wants("by trouble")
	w.types("/lossy")
	w.wants("filter: lossy")
	w.screen.InjectKey(tcell.KeyEnter, 0, tcell.ModNone)
	w.screen.InjectKey(tcell.KeyEnter, 0, tcell.ModNone)
	w.wants("process 7: lossy")
	w.screen.SetSize(120, 10)
	w.screen.PostEvent(tcell.NewEventResize(120, 10))
	w.wants("process 7: lossy", "q quit")
	w.screen.SetSize(20, 3)
	w.screen.PostEvent(tcell.NewEventResize(20, 3))
	w.screen.SetSize(80, 24)
	w.screen.PostEvent(tcell.NewEventResize(80, 24))
	w.screen.InjectKey(tcell.KeyEscape, 0, tcell.ModNone)
	w.wants("2 processes", "lossy")
	w.types("q")
	if err := w.end(); err != nil {
		t.Error(err)
	}
}

// end returns the error with which the view ends.
func (w *watched) end() error {
	w.Helper()
	select {
	case err := <-w.done:
		return err
	case <-time.After(patience):
		w.Fatal("it does not end")
		return nil
	}
}

func TestTopRefusesUnknownDevice(t *testing.T) {
	cmd := TopCommand()
	cmd.SetArgs([]string{"-d", "roce_typo"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "roce_typo") {
		t.Errorf("%v", err)
	}
}

// onNothing returns a view of no processes, and its screen.
func onNothing(t *testing.T) (*top, tcell.Screen) {
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	return newTop(filter{}, filepath.Join(t.TempDir(), "none"), time.Millisecond), screen
}

// ends waits for the end of a run or a poll.
func ends(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

// An end from outside ends the view too, also one before the view begins. A poll that is late does
// not wait for the view.
func TestTopEndsWithItsContext(t *testing.T) {
	for _, early := range []bool{true, false} {
		view, screen := onNothing(t)
		ctx, cancel := context.WithCancel(t.Context())
		if early {
			cancel()
		}
		done := make(chan error, 2)
		go func() { done <- view.run(ctx, screen) }()
		cancel()
		ends(t, done)
		late, cancelLate := context.WithCancel(t.Context())
		go func() { done <- view.poll(late) }()
		time.AfterFunc(50*time.Millisecond, cancelLate) // it polls some times
		ends(t, done)
	}
}

// A process that has ended gives no rate to a living one of its number and command, as another
// container has.
func TestRatesAreOfTheLiving(t *testing.T) {
	living, ended := busyProcesses(2), busyProcesses(9)
	for i := range ended {
		ended[i].Ended = ended[i].Time
	}
	var before rates
	before.note(append(busyProcesses(1), ended...))
	c := living[0].Devices[0].Counters[0]
	if rate, ok := before.of(&living[0], "roce_lo", c); !ok || rate != 1000 {
		t.Errorf("the living: %v, %v", rate, ok)
	}
	if rate, ok := before.of(&ended[0], "roce_lo", ended[0].Devices[0].Counters[0]); ok {
		t.Errorf("the ended: %v", rate)
	}
}
