// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/engine"
	"verbena/internal/monotime"
)

// The eventfd hides an event of a queue that the application polls before it sleeps. It shows the
// event when that is old, or when the application may sleep. ibv_get_cq_event returns hidden ones.
func TestEventOfAQueueThatIsPolledIsHidden(t *testing.T) {
	defer func(d monotime.Duration) { hideTime = d }(hideTime)
	hideTime = monotime.Duration(1 << 60) // only the test is the alarm
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	c := newChannel(e, fd)
	defer c.channelClose()
	a, b := &cqEvent{channel: c, cookie: 1}, &cqEvent{channel: c, cookie: 2}
	want := func(when string, readable bool) {
		t.Helper()
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 0); err != nil || n == 1 != readable {
			t.Errorf("%s: the eventfd is readable: %v, %v", when, n == 1, err)
		}
	}
	taken := func(want uint64) {
		t.Helper()
		if cookie, _, ok := c.take(false); !ok || cookie != want {
			t.Errorf("took %d, %v, want the event of %d", cookie, ok, want)
		}
	}

	a.put()
	want("an event without notice", true)
	taken(1)
	want("after it", false)

	a.polled(true)
	a.put()
	want("an event of the queue that is polled", false)
	b.put()
	want("one of another queue", true)
	taken(1)
	taken(2)

	untilShown := func(when string, now, until monotime.Time, moved bool) {
		t.Helper()
		if to, ok := c.hiddenUntil(now); to != until || ok != moved {
			t.Errorf("%s: at %d the alarm moves to %d, %v, want %d, %v", when, now, to, ok, until,
				moved)
		}
	}
	a.polled(true)
	a.put()
	since := a.hidden
	untilShown("a hidden event", since, since.Add(hideTime), true)
	untilShown("an old one", since.Add(hideTime), since.Add(hideTime), false)
	taken(1)
	untilShown("one that was taken", since.Add(hideTime), monotime.Never, true)
	a.put()
	want("an event after ibv_get_cq_event", true)
	taken(1)

	a.polled(true)
	a.polled(false)
	a.put()
	want("an event after the poll", true)
	taken(1)

	a.polled(true)
	a.put()
	a.put()
	want("a second event", true)
	taken(1)
	taken(1)

	a.polled(true)
	a.put()
	a.show()
	want("the next completion", true)
	taken(1)

	a.polled(true)
	a.put()
	c.showOld(monotime.Now().Add(2 * hideTime))
	want("an old event", true)
	taken(1)

	a.polled(true)
	a.put()
	c.collect(false)
	want("an event of a channel that shows no arrivals", true)
	taken(1)

	a.polled(true)
	c.collect(false)
	a.put()
	want("an event that comes to such a channel", true)
	taken(1)

	a.polled(true)
	a.put()
	a.close()
	if _, _, ok := c.take(false); ok || c.hidden != 0 {
		t.Error("an event of a queue that is gone")
	}
}
