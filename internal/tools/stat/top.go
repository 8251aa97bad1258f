// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
	"github.com/spf13/cobra"

	"verbena/internal/stats"
	"verbena/internal/tools/cli"
)

const topKeys = " ↑↓ Enter open  Esc back  t traffic  e trouble  p process  / filter  q quit"

// TopCommand returns "verbena top".
func TopCommand() *cobra.Command {
	var f filter
	var peer string
	interval := time.Second
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the traffic of running programs",
		Long: `Watch the processes of this user that have devices open, a line for each device of
each. Enter opens a process: its queue pairs, a line for each. Esc goes back.

Keys sort: t by traffic (bytes sent and received), e by trouble (packets lost and
repeated, NAKs, time-outs), p by process or number. / filters by a part of the
process id, command, device, state or peer. q quits.`,
		Example: `  verbena top
  verbena top -d roce_lo --interval 500ms`,
		Args: cli.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.device != "" {
				if _, err := cli.FindDevice(f.device); err != nil {
					return err
				}
			}
			if peer != "" {
				addr, err := netip.ParseAddr(peer)
				if err != nil {
					return cli.Usagef("--peer %s: not an IP address", peer)
				}
				f.peer = addr.Unmap().WithZone("")
			}
			if interval < 100*time.Millisecond {
				return cli.Usagef("--interval %v: must be at least 100ms", interval)
			}
			screen, err := tcell.NewScreen()
			if err == nil {
				err = screen.Init()
			}
			if err != nil {
				return fmt.Errorf("verbena top needs a terminal: %w", err)
			}
			return newTop(f, cli.RuntimeDir(), interval).run(cmd.Context(), screen)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&f.device, "ib-dev", "d", "", "only device `DEV`")
	fs.IntVarP(&f.pid, "pid", "p", 0, "only process `PID`")
	fs.StringVar(&peer, "peer", "", "only queue pairs whose peer has address `ADDR`")
	fs.DurationVar(&interval, "interval", interval, "ask the processes every `TIME`")
	return cmd
}

// widestCell bounds a column: a line has room in 80 columns.
const widestCell = 16

// top is the live view. The application's goroutine has all fields but the immutable ones.
type top struct {
	// immutable
	filter   filter
	dir      string
	interval time.Duration
	app      *tview.Application
	ended    chan struct{} // closed when the application has ended

	list   *tview.Table
	title  *tview.TextView
	input  *tview.InputField
	layout *tview.Flex

	all    []stats.Snapshot // of the last poll
	before rates            // of the poll before
	view   view
	shown  []line // rows of the table, in order
}

func newTop(f filter, dir string, interval time.Duration) *top {
	t := &top{filter: f, dir: dir, interval: interval, app: tview.NewApplication(),
		ended: make(chan struct{}),
		list:  tview.NewTable(), title: tview.NewTextView(), input: tview.NewInputField()}
	t.list.SetFixed(1, 0).SetSelectable(true, false).SetSelectedFunc(t.open)
	t.list.SetInputCapture(t.key)
	t.input.SetLabel(" filter: ").SetChangedFunc(func(text string) {
		t.view.match = text
		t.draw()
	}).SetDoneFunc(func(key tcell.Key) {
		if key == tcell.KeyEscape {
			t.input.SetText("")
		}
		t.app.SetFocus(t.list)
	})
	keys := tview.NewTextView().SetText(topKeys)
	t.layout = tview.NewFlex().SetDirection(tview.FlexRow).AddItem(t.title, 1, 0, false).
		AddItem(t.list, 0, 1, true).AddItem(t.input, 1, 0, false).AddItem(keys, 1, 0, false)
	return t
}

// run shows the view on a screen until the user quits or ctx ends, and puts the terminal back.
func (t *top) run(ctx context.Context, screen tcell.Screen) error {
	ctx, cancel := context.WithCancel(ctx)
	polled := make(chan error, 1)
	go func() { polled <- t.poll(ctx) }()
	err := t.app.SetScreen(screen).SetRoot(t.layout, true).SetFocus(t.list).Run()
	close(t.ended)
	interrupted := ctx.Err()
	cancel()
	pollErr := <-polled
	if errors.Is(pollErr, context.Canceled) {
		pollErr = nil
	}
	return errors.Join(err, pollErr, interrupted)
}

// poll asks the processes until ctx ends.
func (t *top) poll(ctx context.Context) error {
	defer t.app.Stop()
	t.update(func() {}) // Stop before Run would have Run make another screen
	var last []stats.Snapshot
	for {
		all, err := stats.Collect(ctx, t.dir)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("cannot look for processes: %w", err)
		}
		var before rates
		before.note(last)
		last = all
		some := t.filter.of(all)
		t.update(func() {
			t.all, t.before = some, before
			t.draw()
		})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(t.interval):
		}
	}
}

// update has the application call f and draw. An application that ends may drop the call, which
// update does not wait for then.
func (t *top) update(f func()) {
	done := make(chan struct{})
	go func() {
		t.app.QueueUpdateDraw(f)
		close(done)
	}()
	select {
	case <-done:
	case <-t.ended:
	}
}

// key handles a key of the list.
func (t *top) key(e *tcell.EventKey) *tcell.EventKey {
	switch {
	case e.Key() == tcell.KeyEscape, e.Key() == tcell.KeyBackspace2:
		t.view.of = nil
	case e.Rune() == 'q', e.Key() == tcell.KeyCtrlC:
		t.app.Stop()
		return nil
	case e.Rune() == 't':
		t.view.order = byTraffic
	case e.Rune() == 'e':
		t.view.order = byTrouble
	case e.Rune() == 'p':
		t.view.order = byNumber
	case e.Rune() == '/':
		t.app.SetFocus(t.input)
		return nil
	default:
		return e
	}
	t.draw()
	return nil
}

// open shows the queue pairs of the selected process.
func (t *top) open(row, _ int) {
	if t.view.of == nil && row >= 1 && row <= len(t.shown) {
		of := t.shown[row-1].of
		t.view.of = &of
		t.list.Select(1, 0)
		t.draw()
	}
}

// draw fills the table. The selection stays with its line.
func (t *top) draw() {
	row, _ := t.list.GetSelection()
	var selected string
	if row >= 1 && row <= len(t.shown) {
		selected = t.shown[row-1].key
	}
	var header []string
	header, t.shown = t.view.lines(t.all, &t.before)
	t.title.SetText(t.view.title(t.all, time.Now()))
	t.list.Clear()
	for i, name := range header {
		t.list.SetCell(0, i, tview.NewTableCell(name).SetSelectable(false).
			SetAttributes(tcell.AttrBold).SetAlign(t.view.align(i)))
	}
	for i, l := range t.shown {
		for j, text := range l.cells {
			cell := tview.NewTableCell(tview.Escape(text)).SetAlign(t.view.align(j))
			cell.SetMaxWidth(widestCell)
			if l.trouble > 0 {
				cell.SetTextColor(tcell.ColorRed)
			}
			t.list.SetCell(i+1, j, cell)
		}
		if l.key == selected {
			row = i + 1
		}
	}
	t.list.Select(max(1, min(row, len(t.shown))), 0)
}
