// SPDX-License-Identifier: BSD-2-Clause

package rig

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"verbena/internal/engine"
	"verbena/internal/mem"
)

// Timeout bounds a test's wait for an event that must come: much longer than it takes, as it only
// ends tests that fail.
const Timeout = 20 * time.Second

// Node is an engine.
type Node struct {
	T        testing.TB
	Eng      *engine.Engine
	Addr     netip.Addr
	Dir      string // where it meets others
	Keys     *mem.Table
	Counters *engine.DeviceCounters
}

var addrs atomic.Uint32

// NewAddr returns an address of 127.64.0.0/10 that no other test process is likely to use.
func NewAddr() netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 127<<24|1<<22|uint32(os.Getpid())<<6&(1<<22-1)|addrs.Add(1)&63)
	return netip.AddrFrom4(a)
}

// NewNode returns an engine of these options, which the test's end closes. names are those
// of its machines' counts.
func NewNode(t testing.TB, o engine.Options, names []string) *Node {
	t.Helper()
	e, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	seed := uint32(1)
	return &Node{T: t, Eng: e, Addr: NewAddr(), Counters: engine.NewDeviceCounters(names),
		Keys: mem.NewTable(func() uint32 {
			seed = seed*1664525 + 1013904223
			return seed
		})}
}

// Counter returns one of an engine's counters.
func (n *Node) Counter(name string) uint64 {
	n.T.Helper()
	for _, c := range n.Eng.Counters(n.Counters) {
		if c.Name == name {
			return c.Value
		}
	}
	n.T.Fatalf("no counter %q", name)
	return 0
}

// Until waits until f returns true, because of another thread.
func Until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Timeout); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(50 * time.Microsecond)
	}
}
