// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"slices"
	"time"

	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/rdma"
	"verbena/internal/ntb/window"
)

// appMemory is the application's part of our window. In a hub, where each link has a window of its
// own, all windows share this part.
type appMemory struct {
	window *window.Window // it lies in this window
	from   uint64         // where in the window of a link that one begins
}

// placeOf returns where in the window of a link memory lies.
func (m *appMemory) placeOf(b []byte) (at uint64, ok bool) {
	at, ok = m.window.PlaceOf(b)
	return m.from + at, ok
}

// exposure is a region in the window.
type exposure struct {
	region *mem.Region
	at     uint64
}

// takePause is the time after which TakeMemory looks again.
const takePause = 100 * time.Microsecond

// TakeMemory returns memory of the application's part of our window. Peers write memory that is
// registered there without a copy on the way. It is not cleared. If the window was another
// process's before, TakeMemory waits until the peer knows that this process is gone, or is known to
// be silent.
func (l *Device) TakeMemory(n uint64) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.inherited && !l.closed && !l.dead {
		if l.inherited = l.home.link == nil ||
			l.home.node.Channel().Stale(monotime.Now()); l.inherited {
			l.mu.Unlock()
			l.opener.Pause(takePause)
			l.mu.Lock()
		}
	}
	if l.closed || l.dead {
		return nil, false
	}
	at, ok := l.home.node.TakeMemory(n)
	if !ok {
		return nil, false
	}
	return l.memory.window.Bytes(at-l.memory.from, n)
}

// GiveMemory takes back memory that TakeMemory returned.
func (l *Device) GiveMemory(b []byte) {
	at, ok := l.memory.placeOf(b)
	if !ok {
		panic("ntb: memory that is not of the window")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.home.node.GiveMemory(at, uint64(len(b)))
}

// Expose has peers write straight to a region if b, which is its memory, lies in
// our window. It reports whether Withdraw must be called.
func (l *Device) Expose(mr *mem.Region, b []byte) bool {
	at, ok := l.memory.placeOf(b)
	if !ok {
		return false
	}
	l.mu.Lock()
	now := monotime.Now()
	var err error
	for _, x := range l.all {
		err = x.node.Expose(mr, rdma.Piece(at, uint64(len(b)))) // of one all would say the same
		x.turn(now)
	}
	if l.Shared() {
		l.exposed = append(l.exposed, exposure{mr, at})
	}
	l.deliverUnlock()
	return err == nil
}

// Withdraw ends Expose. When it returns no peer writes to the region any more, or
// the link is down. That takes a round trip, or as long as a peer that has stopped
// takes to be found out.
func (l *Device) Withdraw(mr *mem.Region) {
	l.mu.Lock()
	now := monotime.Now()
	l.exposed = slices.DeleteFunc(l.exposed, func(e exposure) bool { return e.region == mr })
	for _, x := range l.all {
		x.node.Withdraw(now, mr)
	}
	l.awaitUnlock(func(now monotime.Time) bool {
		done := true
		for _, x := range l.all {
			done = x.node.Withdrawn(now, mr) && done
		}
		return done
	})
}
