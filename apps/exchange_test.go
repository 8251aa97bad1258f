// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"verbena/internal/sys/freeport"
)

// limit bounds one exchange. Most take a tenth of a second; the longest, of
// thousands of messages of all sizes, some seconds on a busy machine.
const limit = 60 * time.Second

// refusalLimit bounds the time in which a client that finds no listener is started again: not every
// server of the connection manager shows when it listens.
const refusalLimit = 10 * time.Second

// exchange is a server and a client, or a program alone. In its words $DEV, $NET, $ADDR and $SIX
// stand for the device, its interface and its addresses. $PORT and $PORT2 to $PORT4 are ports that
// nobody else has. $DIR is a directory of the exchange's own, $RUN one of the run's.
type exchange struct {
	program string // the row of the table
	label   string // the variant, in the row; empty is plain use
	server  string // command line; none if the program needs no peer
	client  string
	env     string   // NAME=value …, of both
	ready   string   // "tcp": the server listens on $PORT; "event": it waits for one; else its output when or before it listens
	times   int      // how often it prints that; 0 is once
	says    []string // the client's output matches these regular expressions
	answers []string // the server's likewise
	fails   int      // the exit status that the client must have
	stays   bool     // the server does not end by itself
	either  bool     // the server's exit status means nothing
	only    string   // runs over this column's device only
	leaves  []string // files that the programs make, under these names only, and leave
	early   string   // matches the output of a client that has met a server between two of its calls: all is run again
	limit   time.Duration
	check   func(t *testing.T, dir, said string) // looks further
	cannot  string                               // why no software device can do it: the case tests the refusal
	partly  string                               // the part that is left out, and why
}

// port is the last that was given out. Below the ephemeral ports, which peers'
// sockets get.
var port = 20000

// attempts bounds how often an exchange is run whose client came too early. One in four does.
const attempts = 10

// run runs the exchange over a device.
func (x *exchange) run(t *testing.T, d device) {
	for range attempts - 1 {
		if !x.attempt(t, d, true) {
			return
		}
	}
	x.attempt(t, d, false)
}

// attempt is a run. It reports whether the client came too early, unless that is
// to be a failure.
func (x *exchange) attempt(t *testing.T, d device, mayBeEarly bool) (early bool) {
	port += 4
	dir := t.TempDir()
	expand := func(s string) string {
		return os.Expand(s, func(name string) string {
			return map[string]string{
				"DEV": d.name, "NET": d.netdev(), "ADDR": d.addr, "SIX": d.six, "DIR": dir, "RUN": runDir,
				"PORT": strconv.Itoa(port), "PORT2": strconv.Itoa(port + 1), "PORT3": strconv.Itoa(port + 2), "PORT4": strconv.Itoa(port + 3),
			}[name]
		})
	}
	env := append([]string{"VERBENA_DEVICES=" + d.kind}, strings.Fields(expand(x.env))...)
	side := func(name string) []string {
		if d.link == "" {
			return env
		}
		return append(slices.Clip(env), "VERBENA_NTB="+expand(fmt.Sprintf(d.link, name)))
	}
	x.tidy(t)
	defer x.tidy(t)
	bound := x.limit
	if bound == 0 {
		bound = limit
	}
	deadline := time.Now().Add(bound)

	var server *process
	if x.server != "" {
		var err error
		if server, err = launch(dir, side("s"), words(expand(x.server))); err != nil {
			t.Fatal(err)
		}
		defer server.kill()
		if err := x.await(server, deadline); err != nil {
			t.Fatalf("server: %v; it said\n%s", err, server.tail())
		}
	}
	at := "c"
	if x.server == "" { // the side whose address is the host's
		at = "s"
	}
	client, err := x.connect(dir, side(at), words(expand(x.client)), server, deadline)
	if err != nil {
		t.Fatal(err)
	}
	defer client.kill()
	report := func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
		t.Logf("client: %s\n%s", expand(x.client), client.tail())
		if server != nil {
			t.Logf("server: %s\n%s", expand(x.server), server.tail())
		}
	}
	if !client.ended(deadline) {
		report("client: still running after %v", bound)
		return false
	}
	if mayBeEarly && x.cameEarly(client) {
		t.Logf("the client came too early, it said %q: again", x.early)
		return true
	}
	if got := client.status(); got != x.fails {
		report("client: exit status %d, want %d", got, x.fails)
		return false
	}
	if missing := lacks(client.said.String(), expand, x.says); missing != "" {
		report("client: it did not say %q", missing)
		return false
	}
	if server != nil {
		if x.stays {
			server.stop()
		} else if !server.ended(deadline) {
			report("server: still running after %v", bound)
			return false
		} else if got := server.status(); got != 0 && !x.either {
			report("server: exit status %d", got)
			return false
		}
		if missing := lacks(server.said.String(), expand, x.answers); missing != "" {
			report("server: it did not say %q", missing)
			return false
		}
	}
	if x.check != nil {
		x.check(t, dir, client.said.String())
		if t.Failed() {
			report("the check failed")
		}
	}
	return false
}

// tidy removes the programs' files. Another user's files stay and are in the way, which can be
// where there are no namespaces.
func (x *exchange) tidy(t *testing.T) {
	for _, name := range x.leaves {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			fmt.Printf("apps: %s %s is not run: %v; another user's run has left it\n", x.program, x.label, err)
			t.SkipNow()
		}
	}
}

// connect starts the client, and again while nobody listens yet.
func (x *exchange) connect(dir string, env, argv []string, server *process, deadline time.Time) (*process, error) {
	early := time.Now().Add(refusalLimit)
	for {
		client, err := launch(dir, env, argv)
		if err != nil || server == nil || x.ready == "tcp" {
			return client, err
		}
		for !client.ended(time.Now().Add(20 * time.Millisecond)) {
			if time.Now().After(deadline) {
				return client, nil
			}
		}
		if x.cameEarly(client) {
			return client, nil // the server has begun, and does not begin again
		}
		// Not all say by their status that they were refused.
		if !refused.MatchString(client.said.String()) || time.Now().After(early) {
			return client, nil
		}
		select {
		case <-server.done:
			return client, nil
		default:
		}
	}
}

// cameEarly reports whether the client says that it met a server between two of its calls.
func (x *exchange) cameEarly(client *process) bool {
	return x.early != "" && regexp.MustCompile(x.early).MatchString(client.said.String())
}

// refused matches the message of a client whose peer does not listen. rstream without blocking sees
// POLLERR and prints the errno of an earlier call.
var refused = regexp.MustCompile(`(?i)reject|refused|unreachable|rpoll: Operation now in progress`)

// await waits until a server is ready.
func (x *exchange) await(server *process, deadline time.Time) error {
	for x.ready != "" {
		if x.ready == "tcp" {
			if freeport.ListensAt(os.Getpid(), port) {
				return nil
			}
		} else if x.ready == "event" {
			if server.waitsForEvent() {
				return nil
			}
		} else if strings.Count(server.said.String(), x.ready) >= max(x.times, 1) {
			return nil
		}
		if server.ended(time.Now().Add(10 * time.Millisecond)) {
			return fmt.Errorf("it ended early, with status %d", server.status())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not listen")
		}
	}
	return nil
}

// words splits a command line at spaces; single quotes hold words together.
func words(line string) (out []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// lacks returns the first expression that text does not have.
func lacks(text string, expand func(string) string, want []string) string {
	for _, w := range want {
		if !regexp.MustCompile(expand(w)).MatchString(text) {
			return w
		}
	}
	return ""
}
