// SPDX-License-Identifier: BSD-2-Clause

package ifwatch

import "sync"

// Only one listener runs, for all watchers.
var (
	mu       sync.Mutex
	watchers = map[*func(Change)]struct{}{} // guarded by mu
	current  *listener                      // guarded by mu; nil while nobody watches
)

// Watch calls f for every change from now on, one after the other, until stop is
// called; when that returns f is not called any more. f must not block, nor call
// Watch or stop.
func Watch(f func(Change)) (stop func(), err error) {
	mu.Lock()
	defer mu.Unlock()
	if current == nil {
		if current, err = listen(tell); err != nil {
			return nil, err
		}
	}
	key := &f
	watchers[key] = struct{}{}
	return func() { leave(key) }, nil
}

// leave takes a watcher away, and with the last one the listener.
func leave(key *func(Change)) {
	mu.Lock()
	_, there := watchers[key]
	delete(watchers, key)
	var idle *listener
	if there && len(watchers) == 0 {
		idle, current = current, nil
	}
	mu.Unlock()
	if idle != nil {
		idle.close() // without mu, which the listener may want
	}
}

// tell passes a listener's changes on.
func tell(l *listener, list []Change) {
	mu.Lock()
	defer mu.Unlock()
	if l != current {
		return // its watchers are gone
	}
	for _, c := range list {
		for f := range watchers {
			(*f)(c)
		}
	}
}
