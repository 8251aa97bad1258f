// SPDX-License-Identifier: BSD-2-Clause

package shmring

import "testing"

// A nil board, as on other systems, shows nothing.
func TestNoBoard(t *testing.T) {
	var b *Board
	_, rx := NewPair()
	if b.Show(rx) || b.Suffices() || b.Polls() != 0 || b.Memory() != nil {
		t.Error("nil shows something")
	}
	b.Hide(rx)
	b.SetSuffices(true)
	b.End()
}
