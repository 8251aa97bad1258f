// SPDX-License-Identifier: BSD-2-Clause

package fsm

import "testing"

type state uint8

const (
	idle state = iota
	busy
	over
)

func (s state) String() string { return [...]string{"idle", "busy", "over"}[s] }

var table = Table[state]{
	idle: SetOf(busy),
	busy: SetOf(busy, over),
}

func TestTable(t *testing.T) {
	want := [3][3]bool{idle: {busy: true}, busy: {busy: true, over: true}}
	for from := range over + 1 {
		for to := range over + 1 {
			if got := table.Allows(from, to); got != want[from][to] {
				t.Errorf("%v to %v: %v", from, to, got)
			}
		}
	}
}

func TestCheckNamesTheFault(t *testing.T) {
	table.Check("test", idle, busy)
	defer func() {
		if got := recover(); got != "test: no transition from over to idle" {
			t.Errorf("%v", got)
		}
	}()
	table.Check("test", over, idle)
}

func TestSet(t *testing.T) {
	s := SetOf(idle, over)
	if !s.Has(idle) || s.Has(busy) || !s.Has(over) || (^s).Has(over) || !(^s).Has(busy) {
		t.Errorf("%b", s)
	}
	if SetOf[state]() != 0 {
		t.Error("a set of none has some")
	}
}
