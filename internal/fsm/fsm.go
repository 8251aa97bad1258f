// SPDX-License-Identifier: BSD-2-Clause

// Package fsm holds the state machines of this module to their tables of transitions.
//
// A machine declares its states as an enumeration from 0, and a Table. Its one setState
// asks Table.Check before it changes the state.
package fsm

// State is a machine's type of states. A machine has at most 32.
type State interface {
	~uint8
	String() string
}

// Set is a set of states.
type Set[S State] uint32

// SetOf returns the set of some states.
func SetOf[S State](states ...S) (s Set[S]) {
	for _, st := range states {
		s |= 1 << st
	}
	return s
}

// Has reports whether a state is in the set.
func (s Set[S]) Has(st S) bool { return s>>st&1 != 0 }

// Table has, for each state, the states that may follow it.
type Table[S State] []Set[S]

// Allows reports whether a state may follow another.
func (t Table[S]) Allows(from, to S) bool { return int(from) < len(t) && t[from].Has(to) }

// Check panics unless a state may follow another: any other change is a fault of the
// machine's own package.
func (t Table[S]) Check(machine string, from, to S) {
	if !t.Allows(from, to) {
		panic(machine + ": no transition from " + from.String() + " to " + to.String())
	}
}
