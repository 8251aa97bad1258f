// SPDX-License-Identifier: BSD-2-Clause

package engine

import "sync"

// cmCounters sums the counts of connection managers: those of this process, one after the
// other, with the same names.
type cmCounters struct {
	mu    sync.Mutex
	names []string        // guarded by mu
	past  []uint64        // guarded by mu: of those that ended
	now   func() []uint64 // guarded by mu: of the one that runs; else nil
}

// CountCM makes Counters ask a connection manager for its counts, until it ends and is asked for
// the last time. read is called without locks of connections.
func (e *Engine) CountCM(names []string, read func() []uint64) (end func()) {
	t := &e.cm
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = read
	if t.past == nil {
		t.names, t.past = names, make([]uint64, len(names))
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		Accumulate(t.past, read())
		t.now = nil
	}
}

// append adds the counts of all managers.
func (t *cmCounters) append(out []Counter) []Counter {
	t.mu.Lock()
	defer t.mu.Unlock()
	var now []uint64
	if t.now != nil {
		now = t.now()
	}
	for i, name := range t.names {
		n := t.past[i]
		if now != nil {
			n += now[i]
		}
		out = append(out, Counter{name, n})
	}
	return out
}
