// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"testing"

	wire "verbena/internal/wire/trp"
)

// Everything that is told has a word of its own.
func TestWords(t *testing.T) {
	words := map[string]bool{"unknown": true, "": true}
	take := func(kind string, s string) {
		t.Helper()
		if words[kind+s] || s == "unknown" || s == "" {
			t.Errorf("%s %q is nothing of its own", kind, s)
		}
		words[kind+s] = true
	}
	for s := range numStates {
		take("state ", s.String())
	}
	for k := range numCounters {
		take("counter ", counterNames[k])
	}
	for k := EventEstablished; k <= EventClosed; k++ {
		take("event ", k.String())
	}
	for r := LocalClose; r <= BadMemory; r++ {
		take("reason ", r.String())
	}
	for _, s := range []string{numStates.String(), (EventClosed + 1).String(), (BadMemory + 1).String()} {
		if s != "unknown" {
			t.Errorf("%q for what is not there", s)
		}
	}
}

// The ways of an association that is closed in order, as Trace sees them.
func TestStateTable(t *testing.T) {
	var walked []string
	s := &script{t: t, from: serverAddr, burst: NewBurst()}
	c, err := Dial(0, Config{Trace: func(from, to State) { walked = append(walked, from.String()+">"+to.String()) }}, s, listenAddr, wire.Setup{})
	if err != nil {
		t.Fatal(err)
	}
	s.c = c
	s.accept(64)
	s.c.Close(0)
	s.recv(fin(0, 0))
	s.pass(timeWait)
	want := []string{"Idle>ReqSent", "ReqSent>Established", "Established>Draining", "Draining>FinSent", "FinSent>TimeWait", "TimeWait>Closed"}
	for i := range want {
		if i >= len(walked) || walked[i] != want[i] {
			t.Fatalf("%v, want %v", walked, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Closed has a way out")
		}
	}()
	c.setState(Established)
}
