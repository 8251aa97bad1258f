// SPDX-License-Identifier: BSD-2-Clause

package core

import "testing"

// TestLastEventOfAClosedChannel takes an event that was left when the channel closed. Goroutines
// that wait for others must wake up all the same.
func TestLastEventOfAClosedChannel(t *testing.T) {
	q := &CQ{}
	c := &CompChannel{ready: make(chan struct{}, 1)}
	c.put(q)
	c.close()
	if got, err := c.take(); got != q || err != nil {
		t.Fatalf("%v, %v", got, err)
	}
	if len(c.ready) == 0 {
		t.Error("a goroutine that waits is not told of the end")
	}
	if _, err := c.take(); err == nil || len(c.ready) == 0 {
		t.Errorf("then %v, and %d tokens", err, len(c.ready))
	}
}
