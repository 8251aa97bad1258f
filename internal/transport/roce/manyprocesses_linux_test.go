// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/testkit/rig"
)

// Variables of the processes of TestManyProcesses.
const (
	manyProcesses = "VERBENA_ENGINE_PROCESSES" // how many there are, if not the usual number
	manyOf        = "VERBENA_ENGINE_MANY"      // of one of them: its clients, "DIR ADDRESS CLIENTS"
)

// The server and its clients have each this many descriptors, and so many messages each way.
const (
	manyDescriptors = 256
	manyMessages    = 20
)

// manyResult has the counts of the server.
type manyResult struct {
	Rings                 int // clients that it sends to by rings
	Before, During, After int // descriptors
}

// TestManyProcesses has processes share one address, each with a connection to one of them, and at
// most 256 descriptors. Messages go to all of them and back, by rings as far as the descriptors
// suffice, else by sockets. None is lost, and the server has its descriptors again at the end.
func TestManyProcesses(t *testing.T) {
	if of := os.Getenv(manyOf); of != "" {
		serveMany(t, of)
		return
	}
	processes := 64 // all but this one have half of their descriptors for rings: enough for 42
	if s := os.Getenv(manyProcesses); s != "" {
		var err error
		if processes, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	} else if testing.Short() || raceDetector {
		processes = 8
		t.Logf("%d processes of 64, as -short or the race detector wants it", processes)
	}
	keeper := meet(t, how{})[0] // where no command is installed this process keeps the port
	clients := processes - 2
	start := func(clients int) *peerProcess {
		return startAgain(t, "TestManyProcesses",
			fmt.Sprintf("%s=%s %v %d", manyOf, keeper.Dir, keeper.Addr, clients))
	}
	server := start(clients)
	var mine []remote
	if err := server.out.Decode(&mine); err != nil {
		t.Fatal(err)
	}
	theirs := make([]remote, clients)
	all := make([]*peerProcess, clients)
	for i := range all {
		all[i] = start(0)
		if err := all[i].in.Encode(mine[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range all {
		if err := p.out.Decode(&theirs[i]); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
	if err := server.in.Encode(theirs); err != nil {
		t.Fatal(err)
	}
	var result manyResult
	if err := server.out.Decode(&result); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d processes: %+v", processes, result)
	most := manyDescriptors / 2 / 3 // a ring each way takes three
	if result.Rings == 0 || clients > most && result.Rings > most {
		t.Errorf("%d of %d clients had rings, want some and at most %d", result.Rings, clients, most)
	}
	if result.After > result.Before+4 { // two sockets of the address, and those of a ring that ends
		t.Errorf("the server has %d descriptors, %d before", result.After, result.Before)
	}
	for i, p := range all {
		var ok bool
		if err := p.out.Decode(&ok); err != nil || !ok {
			t.Errorf("client %d: %v", i, err)
		}
	}
}

// serveMany is one of the processes: the server, or a client where it is to have none.
func serveMany(t *testing.T, of string) {
	limit := unix.Rlimit{Cur: manyDescriptors, Max: manyDescriptors}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var dir, address string
	var clients int
	if _, err := fmt.Sscan(of, &dir, &address, &clients); err != nil {
		t.Fatal(err)
	}
	n := startNodeAt(t, policy.Nap, how{Dir: dir}, netip.MustParseAddr(address))
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stderr)
	if clients == 0 {
		beClient(n, in, out)
		return
	}
	ends, mine := make([]*endpoint, clients), make([]remote, clients)
	for i := range ends {
		ends[i] = newEndpoint(n, 8)
		mine[i] = remote{Addr: n.Addr, QPN: ends[i].QPN()}
	}
	before := openFiles(t)
	theirs := make([]remote, clients)
	if out.Encode(mine) != nil || in.Decode(&theirs) != nil {
		t.Fatal("the test has ended")
	}
	var talks sync.WaitGroup
	result := manyResult{Before: before}
	for i, e := range ends {
		connectMany(e, theirs[i])
		if connOf(e).ring != nil {
			result.Rings++
		}
	}
	result.During = openFiles(t)
	for i, e := range ends {
		talks.Go(func() {
			for round := range uint64(manyMessages) {
				at := round<<32 | uint64(i)
				e.Recv()
				e.Lock()
				binary.NativeEndian.PutUint64(e.Buf, at)
				e.Unlock()
				e.Send(8)
				awaitAll(e, ib.WCSend, ib.WCRecv)
				e.Lock()
				got := binary.NativeEndian.Uint64(e.Buf)
				e.Unlock()
				if got != at+1<<16 {
					t.Errorf("client %d answered %#x to %#x", i, got, at)
					return
				}
			}
		})
	}
	talks.Wait()
	for _, e := range ends {
		e.Close()
	}
	if t.Failed() {
		return
	}
	rig.Until(t, "the clients have gone", func() bool {
		result.After = openFiles(t)
		return result.After <= result.Before+4
	})
	out.Encode(result)
}

// beClient answers each message by one that is larger by 1<<16.
func beClient(n *node, in *json.Decoder, out *json.Encoder) {
	var server remote
	if in.Decode(&server) != nil {
		n.T.Fatal("the test has ended")
	}
	e := newEndpoint(n, 8)
	connectMany(e, server)
	e.Recv()
	out.Encode(remote{Addr: n.Addr, QPN: e.QPN()})
	e.CQ.Arm(false)
	for e.CQ.Len() == 0 { // the first one comes when all have started
		n.Eng.Wake()
		<-e.Event
	}
	awaitAll(e, ib.WCRecv)
	for left := manyMessages - 1; left >= 0; left-- {
		e.Lock()
		binary.NativeEndian.PutUint64(e.Buf, binary.NativeEndian.Uint64(e.Buf)+1<<16)
		e.Unlock()
		if left == 0 {
			e.Send(8)
			awaitAll(e, ib.WCSend)
			break
		}
		e.Recv()
		e.Send(8)
		awaitAll(e, ib.WCSend, ib.WCRecv)
	}
	out.Encode(true)
}

// manyTimeout bounds a wait: 1,024 processes take a minute together on two processors.
const manyTimeout = 10 * rig.Timeout

// awaitAll waits for completions of these operations, in any order.
func awaitAll(e *endpoint, operations ...ib.WCOpcode) {
	e.Node.T.Helper()
	for range operations {
		wc := e.AwaitFor(manyTimeout)
		if wc.Status != ib.WCSuccess || !slices.Contains(operations, wc.Opcode) {
			e.Node.T.Fatalf("%v %v (%v), want %v", wc.Opcode, wc.Status, wc.VendorErr, operations)
		}
	}
}

// connectMany is connectTo with time-outs for a machine with a thousand processes.
func connectMany(e *endpoint, r remote) { connectAt(e, r.QPN, r.Addr, 18, 7) }
