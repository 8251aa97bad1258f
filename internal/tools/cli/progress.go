// SPDX-License-Identifier: BSD-2-Clause

package cli

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progressDelay is the time of a run after which its progress is shown.
const progressDelay = time.Second

// Progress shows how far a long run is, on a terminal only. The zero value
// shows nothing.
type Progress struct {
	bar   *progressbar.ProgressBar
	since time.Time
	shown bool
}

// NewProgress returns a Progress of total steps on w. It shows nothing if w is not a terminal or
// total is not known (0).
func NewProgress(w io.Writer, what string, total int64) *Progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || total <= 0 {
		return &Progress{}
	}
	return &Progress{since: time.Now(), bar: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true),
	)}
}

// Set sets the number of steps done. It is cheap but not free: call it every some hundred steps.
func (p *Progress) Set(done int64) {
	if p.bar == nil || !p.shown && time.Since(p.since) < progressDelay {
		return
	}
	p.shown = true
	_ = p.bar.Set64(done) // a terminal that cannot be written to is no reason to stop
}

// Done takes the bar away.
func (p *Progress) Done() {
	if p.bar != nil && p.shown {
		_ = p.bar.Clear()
	}
}
