// SPDX-License-Identifier: BSD-2-Clause

package qp

import (
	"testing"

	"verbena/ib"
)

// Every pair of states, as figure 124 of the specification draws them.
func TestTransitions(t *testing.T) {
	arrows := map[[2]ib.QPState]bool{
		{ib.QPReset, ib.QPInit}: true, {ib.QPInit, ib.QPRTR}: true, {ib.QPRTR, ib.QPRTS}: true,
		{ib.QPInit, ib.QPInit}: true, {ib.QPRTS, ib.QPRTS}: true, {ib.QPSQD, ib.QPSQD}: true,
		{ib.QPRTS, ib.QPSQD}: true, {ib.QPSQD, ib.QPRTS}: true,
		{ib.QPRTS, ib.QPSQE}: true, {ib.QPSQD, ib.QPSQE}: true, {ib.QPSQE, ib.QPRTS}: true,
	}
	for from := ib.QPReset; from <= ib.QPErr; from++ {
		for to := ib.QPReset; to <= ib.QPErr; to++ {
			want := arrows[[2]ib.QPState{from, to}] || to == ib.QPReset || to == ib.QPErr
			if got := transitions.Allows(from, to); got != want {
				t.Errorf("%v to %v: %v, want %v", from, to, got, want)
			}
		}
	}
}

// The reason of a failure ends with a new beginning, and not with a failure that has none.
func TestCause(t *testing.T) {
	for _, s := range []ib.QPState{ib.QPReset, ib.QPInit, ib.QPRTS} {
		q := Core{state: s}
		q.Blame(ib.VendorAccess)
		q.Blame(ib.VendorNone)
		if got := q.Cause(); got != ib.VendorAccess {
			t.Errorf("%v: the reason is %v", s, got)
		}
		q.Enter(s)
		if got := q.Cause(); got != ib.VendorNone {
			t.Errorf("%v: the reason is still %v", s, got)
		}
	}
}
