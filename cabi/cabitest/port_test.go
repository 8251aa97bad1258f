// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"verbena/internal/testkit/childproc"
	"verbena/internal/testkit/netns"
)

// admin administers the network of the calling test, which has an interface d0 that is up and has
// the addresses 192.0.2.1 to 192.0.2.3.
type admin struct{ *netns.Network }

// newNetwork returns false if the test has run in another process.
func newNetwork(t *testing.T) (admin, bool) {
	t.Helper()
	a := admin{netns.New(t)}
	if a.Network == nil {
		return a, false
	}
	a.AddWire("d0", "d1")
	a.Up("lo", "d1", "d0")
	for i := range 3 {
		a.add(i + 1)
	}
	return a, true
}

func (a admin) add(last int)    { a.Add("d0", prefix(last)) }
func (a admin) remove(last int) { a.Remove("d0", prefix(last)) }

func prefix(last int) string { return fmt.Sprintf("192.0.2.%d/32", last) }

// watcher is a run of a program that says in lines what it sees.
type watcher struct {
	t     *testing.T
	ask   io.Writer
	lines <-chan string
}

func watch(t *testing.T, args ...string) watcher {
	t.Helper()
	return start(t, "port_watch", args...)
}

func start(t *testing.T, name string, args ...string) watcher {
	t.Helper()
	lib, _ := libDir()
	cmd := exec.Command(compile(t, name), args...) // it ends with its input, or by its alarm
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib)
	in, out := childproc.Start(t, cmd)
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return watcher{t, in, lines}
}

// want waits for a line; skip may come before it.
func (w watcher) want(line string, skip ...string) {
	w.t.Helper()
	limit := time.After(within)
	for {
		select {
		case got, ok := <-w.lines:
			if !ok {
				w.t.Fatalf("the program ended before it said %q", line)
			}
			if got == line {
				return
			}
			if len(skip) == 0 || got != skip[0] {
				w.t.Fatalf("%q, not %q", got, line)
			}
		case <-limit:
			w.t.Fatalf("no %q", line)
		}
	}
}

func (w watcher) asked(question, answer string) {
	w.t.Helper()
	if _, err := io.WriteString(w.ask, question+"\n"); err != nil {
		w.t.Fatal(err)
	}
	w.want(answer)
}

const (
	gidChange  = "event: GID table change, port 1"
	portError  = "event: port error, port 1"
	portActive = "event: port active, port 1"
)

// TestPortEvents: a program with nothing but a context gets the events of its port while an
// administrator changes the interface.
func TestPortEvents(t *testing.T) {
	a, here := newNetwork(t)
	if !here {
		return
	}
	w := watch(t, "roce_d0")
	// The engine is loaded meanwhile: events begin some time after the start.
	for began := false; !began; {
		a.add(9)
		select {
		case line := <-w.lines:
			if line != gidChange {
				t.Fatal(line)
			}
			began = true
		case <-time.After(100 * time.Millisecond):
		}
		a.remove(9)
	}
	a.Down("d0")
	w.want(portError, gidChange)
	a.Up("d0")
	w.want(portActive, gidChange)
	a.add(4)
	w.want(gidChange)
}

// TestGIDIndicesStay compares the table of the front, which is read without the engine, with the
// indices that the engine uses, while addresses come and go.
func TestGIDIndicesStay(t *testing.T) {
	a, here := newNetwork(t)
	if !here {
		return
	}
	w := watch(t, "roce_d0", "objects")
	w.asked("gids", " 1 2 3 - - -")
	a.add(4)
	w.asked("source 3", " yes") // the engine's first look
	a.remove(2)
	w.lines = events(w.lines)
	w.asked("gids", " 1 - 3 4 - -")
	w.asked("source 1", " Invalid argument")
	w.asked("source 2", " yes")
	w.asked("list", " 0:1 2:3 3:4")
	a.add(8)
	a.add(9)
	w.asked("source 4", " yes") // 9: 8 has the hole
	w.asked("gids", " 1 8 3 4 9 -")
	a.remove(9)
	w.asked("source 4", " Invalid argument")
	w.asked("list", " 0:1 1:8 2:3 3:4")
}

// TestGIDTableIsNeverOld: a table shows addresses that come and go between reads, in a program and
// in its child. These must not take each other's notifications. It does so, too, after the program
// has closed the socket of the notifications.
func TestGIDTableIsNeverOld(t *testing.T) {
	a, here := newNetwork(t)
	if !here {
		return
	}
	w := watch(t, "roce_d0")
	w.lines = events(w.lines)
	w.asked("gids", " 1 2 3 - - -")
	a.add(4)
	w.asked("forked gids", " 1 2 3 4 - -")
	w.asked("gids", " 1 2 3 4 - -")
	a.remove(3)
	w.asked("gids", " 1 2 - 4 - -")
	w.asked("forked gids", " 1 2 - 4 - -")
	for i := 10; i < 500; i++ { // more notifications than there is room for
		a.add(3)
		a.remove(3)
	}
	a.add(5)
	w.asked("gids", " 1 2 5 4 - -")
	w.asked("close", " done")
	a.add(6)
	w.asked("gids", " 1 2 5 4 6 -")
	a.remove(1)
	w.asked("gids", " - 2 5 4 6 -")
}

// TestPathMTUAboveThePorts compares with rxe where packets of the largest path MTU do not fit the
// interface.
func TestPathMTUAboveThePorts(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	if err := n.LinkSetMTU(n.Link("lo"), 1500); err != nil {
		t.Fatal(err)
	}
	n.Up("lo")
	run(t, "verbs_as_rxe", "1024")
}

// TestAddrChangeOfSynchronousID: a call of an identifier in synchronous mode passes over the event
// that its interface has another hardware address.
func TestAddrChangeOfSynchronousID(t *testing.T) {
	a, here := newNetwork(t)
	if !here {
		return
	}
	w := start(t, "sync_addr_change", "192.0.2.1", "192.0.2.2")
	w.want("bound")
	a.SetMAC("d0", "02:00:00:00:00:01")
	w.want("resolved")
}

// events returns the lines that are events.
func events(lines <-chan string) <-chan string {
	out := make(chan string, cap(lines))
	go func() {
		defer close(out)
		for l := range lines {
			if !strings.HasPrefix(l, "event: ") {
				out <- l
			}
		}
	}()
	return out
}
