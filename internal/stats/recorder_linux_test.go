// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// A snapshot is kept after something was done. While nothing is, the recorder sleeps without limit.
func TestRecorderSleepsWhileNothingIsDone(t *testing.T) {
	var r recorder
	var kept atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(time.Millisecond, func() Snapshot { kept.Add(1); return Snapshot{} })
	}()
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !is(); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("%s: not so after %v", what, patience)
			}
		}
	}
	for i := range int32(3) {
		until("sleeps", func() bool { return r.waiting.Load() })
		if got := kept.Load(); got != i+1 {
			t.Errorf("%d snapshots, want %d", got, i+1)
		}
		r.stir()
		r.stir()
		until("keeps", func() bool { return kept.Load() > i+1 })
	}
	r.end()
	<-done
}

// Work during a snapshot has another snapshot.
func TestRecorderKeepsWhatComesMeanwhile(t *testing.T) {
	var r recorder
	kept := 0
	r.run(time.Nanosecond, func() Snapshot {
		if kept++; kept < 3 {
			r.stir()
		} else {
			r.end()
		}
		return Snapshot{}
	})
	if kept != 3 {
		t.Errorf("%d snapshots, want 3", kept)
	}
}
