// SPDX-License-Identifier: BSD-2-Clause

package netns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inside names, in the environment, the test that runs in its namespace.
const inside = "VERBENA_NETNS_TEST"

// patience bounds the wait for an interface.
const patience = 10 * time.Second

// Network is the calling test's namespace. It begins as the kernel makes it: with
// a loopback interface that is down.
type Network struct {
	t *testing.T
	*netlink.Handle
	calls chan func() // of the thread that is in a namespace of Far
	tid   int         // that thread
}

// New returns the test's namespace to the process that is in it. Elsewhere it
// runs that process to its end and returns nil: the test has been done then.
func New(t *testing.T) *Network {
	t.Helper()
	if os.Getenv(inside) != t.Name() {
		again(t)
		return nil
	}
	h, err := netlink.NewHandle()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return &Network{t: t, Handle: h}
}

// Far returns a second namespace, which ends with the test. A thread of its own is in it: see Do.
func (n *Network) Far() *Network {
	n.t.Helper()
	far := &Network{t: n.t, calls: make(chan func())}
	opened := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNET))
		if err == nil {
			far.tid = unix.Gettid()
			far.Handle, err = netlink.NewHandle()
		}
		opened <- err
		for f := range far.calls {
			f()
		}
	}()
	n.check(<-opened)
	n.t.Cleanup(func() { close(far.calls); far.Close() })
	return far
}

// Do calls f in a namespace of Far. Sockets that f opens stay there. The test ends if f fails it.
func (n *Network) Do(f func()) {
	n.t.Helper()
	done := make(chan any, 1)
	n.calls <- func() {
		defer func() { done <- recover() }()
		f()
	}
	if p := <-done; p != nil {
		n.t.Fatal(p)
	}
	if n.t.Failed() { // f has ended its goroutine
		n.t.FailNow()
	}
}

// Move takes an interface to a namespace of Far. It is down then and has no address.
func (n *Network) Move(name string, to *Network) {
	n.t.Helper()
	n.check(n.LinkSetNsPid(n.Link(name), to.tid))
}

// Set writes a kernel parameter below /proc/sys/net.
func (n *Network) Set(name, value string) {
	n.t.Helper()
	write := func() { n.check(os.WriteFile("/proc/sys/net/"+name, []byte(value), 0)) }
	if n.calls == nil {
		write()
		return
	}
	n.Do(write)
}

// Spread has the kernel hand an interface's packets to all processors, by their flows (RPS).
func (n *Network) Spread(name string) {
	n.t.Helper()
	dir := n.t.TempDir()
	mask := fmt.Sprintf("%x", uint32(1)<<min(runtime.NumCPU(), 31)-1)
	var err error
	n.Do(func() {
		if err = unix.Mount("sysfs", dir, "sysfs", 0, ""); err != nil {
			return
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		err = os.WriteFile(dir+"/class/net/"+name+"/queues/rx-0/rps_cpus", []byte(mask), 0)
	})
	if errors.Is(err, unix.EPERM) { // also of a container that hides parts of sysfs
		n.t.Skipf("needs to mount sysfs, and to write there: %v", err)
	}
	n.check(err)
}

// again runs the calling test in a namespace.
func again(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0],
		"-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM):
		t.Skipf("needs CAP_SYS_ADMIN for a network namespace: %v", err)
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skipf("%s", out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Fatalf("the test did not run:\n%s", out)
	}
}

// AddWire makes two interfaces, the ends of one wire; both are down and have no
// address, and none that the kernel would give them by itself.
func (n *Network) AddWire(name, other string) {
	n.t.Helper()
	n.AddWideWire(name, other, 1)
}

// AddWideWire is AddWire with several queues at each end. A frame that leaves by one arrives at the
// queue of the same number.
func (n *Network) AddWideWire(name, other string, queues int) {
	n.t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = name, queues, queues
	if err := n.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: other,
		PeerNumTxQueues: uint32(queues), PeerNumRxQueues: uint32(queues)}); err != nil {
		n.t.Skipf("this kernel has no pairs of virtual interfaces: %v", err)
	}
	const noAddress = 1 // IN6_ADDR_GEN_MODE_NONE
	for _, end := range []string{name, other} {
		n.check(n.LinkSetIP6AddrGenMode(n.Link(end), noAddress))
	}
}

// Link returns an interface as it is now.
func (n *Network) Link(name string) netlink.Link {
	n.t.Helper()
	l, err := n.LinkByName(name)
	n.check(err)
	return l
}

// Up takes interfaces up, and returns when they run.
func (n *Network) Up(names ...string) {
	n.t.Helper()
	for _, name := range names {
		n.check(n.LinkSetUp(n.Link(name)))
	}
	for _, name := range names {
		for deadline := time.Now().Add(patience); n.Link(name).Attrs().
			RawFlags&unix.IFF_RUNNING == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				n.t.Fatalf("%s does not run", name)
			}
		}
	}
}

// Down takes an interface down.
func (n *Network) Down(name string) {
	n.t.Helper()
	n.check(n.LinkSetDown(n.Link(name)))
}

// SetMAC gives a link another hardware address.
func (n *Network) SetMAC(name, mac string) {
	n.t.Helper()
	a, err := net.ParseMAC(mac)
	n.check(err)
	n.check(n.LinkSetHardwareAddr(n.Link(name), a))
}

// Delete removes an interface.
func (n *Network) Delete(name string) {
	n.t.Helper()
	n.check(n.LinkDel(n.Link(name)))
}

// Add gives an interface an address, with its prefix.
func (n *Network) Add(name, prefix string) {
	n.t.Helper()
	n.check(n.AddrAdd(n.Link(name), n.addr(prefix)))
}

// Remove takes an address from an interface.
func (n *Network) Remove(name, prefix string) {
	n.t.Helper()
	n.check(n.AddrDel(n.Link(name), n.addr(prefix)))
}

func (n *Network) addr(prefix string) *netlink.Addr {
	n.t.Helper()
	a, err := netlink.ParseAddr(prefix)
	n.check(err)
	return a
}

func (n *Network) check(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}
