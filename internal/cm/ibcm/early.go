// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"net/netip"
	"slices"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// A program that takes one connection after the other may close its listener with the first and
// listen again for the second. perftest does so with -R, and its peer goes on as soon as the first
// connection is there. Or a program tells its peer the port that it is bound to, and then listens,
// as qperf does. A request that comes before the listener is early, not refused: it waits a moment.
const (
	relistens = monotime.Second // how long a listener is expected
	patience  = monotime.Second // how long a request waits for it, on a machine that does much else
	maxEarly  = 64
	// maxEarlyOfOne bounds the requests that may name one address.
	maxEarlyOfOne = 8
)

// early is a request that waits for a listener.
type early struct {
	path Path
	mad  cm.Header
	req  cm.REQ
	due  monotime.Time // when it is looked at again, at last to be refused
}

// Expect says that a service id is about to be listened to: requests wait for that.
func (a *Agent) Expect(now monotime.Time, s cm.ServiceID) {
	for other, at := range a.lately {
		if now.Sub(at) > relistens {
			delete(a.lately, other)
		}
	}
	if len(a.lately) < maxEarly {
		a.lately[s] = now
	}
}

// tooEarly reports whether a request without a listener waits for one.
func (a *Agent) tooEarly(now monotime.Time, path Path, h *cm.Header, m *cm.REQ) bool {
	if slices.ContainsFunc(a.early, func(e early) bool {
		return e.path == path && e.req.LocalCAGUID == m.LocalCAGUID &&
			e.req.LocalCommID == m.LocalCommID
	}) {
		return true // the peer asks again
	}
	at, ok := a.lately[m.ServiceID]
	if !ok || now.Sub(at) > relistens {
		return false
	}
	a.roomForEarly(plainAddr(path.Remote))
	a.early = append(a.early, early{path, *h, *m, now.Add(patience)})
	a.pending++
	return true
}

// roomForEarly drops the oldest request where there are too many, of an address or in
// all. The peer asks again.
func (a *Agent) roomForEarly(from netip.Addr) {
	oldest, of := -1, 0
	for i := range a.early {
		if plainAddr(a.early[i].path.Remote) == from {
			if of++; of == 1 {
				oldest = i
			}
		}
	}
	if of < maxEarlyOfOne {
		if len(a.early) < maxEarly {
			return
		}
		oldest = 0
	}
	a.early = slices.Delete(a.early, oldest, oldest+1)
	a.pending--
}

// listens has requests for a service id looked at again at once.
func (a *Agent) listens(s cm.ServiceID) {
	for i := range a.early {
		if e := &a.early[i]; e.req.ServiceID == s {
			e.due = 0
		}
	}
}

// nextEarly returns when a request is to be looked at again.
func (a *Agent) nextEarly() monotime.Time {
	next := monotime.Never
	for i := range a.early {
		next = min(next, a.early[i].due)
	}
	return next
}

// handleEarly takes requests whose listener is there or whose time is over.
func (a *Agent) handleEarly(now monotime.Time) {
	if now.Before(a.nextEarly()) {
		return
	}
	all := a.early
	a.early = nil
	for i := range all {
		e := &all[i]
		if now.Before(e.due) {
			a.early = append(a.early, *e)
			continue
		}
		a.pending--
		if e.due != 0 {
			delete(a.lately, e.req.ServiceID) // nobody has come: no more patience
		}
		a.handleREQ(now, e.path, &e.mad, &e.req, claimed)
	}
}
