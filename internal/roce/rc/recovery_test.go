// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
)

// grow acknowledges a window at a time for some round trips.
func (l *recovery) grow(now monotime.Time, trips int) {
	for range trips {
		l.acked(now, ib.PSN(0), l.window)
	}
}

func TestWindowGrowsPastAnOrdinarySocketWhileNothingIsLost(t *testing.T) {
	var l recovery
	l.start()
	l.grow(0, 2)
	if l.window < ordinaryWindow {
		t.Errorf("%d bytes after two round trips: slow start reaches %d", l.window, ordinaryWindow)
	}
	l.grow(0, 30)
	if l.window != maxWindow {
		t.Errorf("%d bytes after 30 more, want %d", l.window, maxWindow)
	}
}

// A socket that holds less loses packets once, and then not for a while.
func TestWindowStaysBelowWhatWasTooMuch(t *testing.T) {
	var l recovery
	l.start()
	l.grow(0, 8)
	tooMuch := l.window
	l.lost(0, 4096)
	l.grow(1, 1000)
	if l.window >= tooMuch || l.window < tooMuch/2 {
		t.Errorf("%d bytes after %d were too much", l.window, tooMuch)
	}
	l.grow(monotime.Time(believeCeiling), 1000)
	if l.window < tooMuch {
		t.Errorf("%d bytes: %d are not tried again", l.window, tooMuch)
	}
}

// Losses that have nothing to do with the window do not bound it ever more.
func TestRandomLossLeavesAnOrdinaryWindowWithinReach(t *testing.T) {
	var l recovery
	l.start()
	for range 100 {
		l.lost(0, 4096)
	}
	l.grow(0, 1000)
	if l.window < ordinaryWindow {
		t.Errorf("%d bytes, want %d", l.window, ordinaryWindow)
	}
}
