// SPDX-License-Identifier: BSD-2-Clause

package xdpwire

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"verbena/internal/sys/portshare"
	"verbena/internal/sys/xdp"
	"verbena/internal/sys/xsk"
)

const (
	wanted = "VERBENA_TEST_XDP"        // asks for frames
	inside = "VERBENA_TEST_XDP_INSIDE" // names the namespace that has the wire
)

// names are the ends of the wire.
var names = [2]string{"xa", "xb"}

// mtu is that of the wire.
const mtu = 1500

// Wanted reports whether nodes have frames.
func Wanted() bool { return os.Getenv(wanted) != "" }

// Skip skips a test where nodes have frames, for a reason, which it prints.
func Skip(t testing.TB, why string) {
	t.Helper()
	if Wanted() {
		fmt.Printf("not over AF_XDP: %s: %s\n", t.Name(), why)
		t.Skip("not over AF_XDP: " + why)
	}
}

// Main runs a package's tests, and returns the exit status for TestMain. Without the environment
// variable it is m.Run.
func Main(m *testing.M) int {
	switch {
	case os.Getenv(wanted) == "":
		return m.Run()
	case os.Getenv(inside) != "":
		return m.Run()
	}
	if err := possible(); err != nil {
		fmt.Println("not run: tests over AF_XDP need CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, "+
			"CAP_SYS_ADMIN and a kernel with AF_XDP:", err)
		return 0
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// possible tries what the namespace needs.
func possible() error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket AF_XDP", err)
	}
	unix.Close(fd)
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	return cmd.Run()
}

// Place is a node's end of the wire.
type Place struct {
	Addr   netip.Addr
	Dir    string // where the nodes of a test meet
	Frames []portshare.Interface
	Attach portshare.Attach
	LookUp xsk.LookUp
}

// wire is the process's, made by its first node.
type wire struct {
	ends  [2]*net.Interface
	nodes int
	dirs  map[testing.TB]string
}

var (
	mu     sync.Mutex
	opened *wire // guarded by mu
)

// Of returns the place of a test's next node. It is nil where the test is to use sockets.
func Of(t testing.TB) *Place {
	t.Helper()
	if os.Getenv(wanted) == "" {
		return nil
	}
	mu.Lock()
	defer mu.Unlock()
	if opened == nil {
		w, err := open()
		if err != nil {
			t.Fatal(err)
		}
		opened = w
	}
	w := opened
	end := w.nodes % 2
	w.nodes++
	addr := netip.AddrFrom4([4]byte{10, 9, byte(128*end + w.nodes>>8), byte(w.nodes)})
	if err := addAddr(w.ends[end], addr); err != nil {
		t.Fatal(err)
	}
	dir, ok := w.dirs[t]
	if !ok {
		var err error
		if dir, err = os.MkdirTemp("", "frames"); err != nil { // of a name that is short enough
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		w.dirs[t] = dir
	}
	return &Place{Addr: addr, Dir: dir, Attach: xdp.Attach, LookUp: w.lookUp,
		Frames: []portshare.Interface{{Name: names[end], Queues: 1}}}
}

// open finds the wire, and makes it if this is the first process of the namespace.
func open() (*wire, error) {
	w := &wire{dirs: map[testing.TB]string{}}
	if _, err := net.InterfaceByName(names[0]); err != nil {
		if os.Getenv(inside) == "" {
			return nil, errors.New("xdpwire: TestMain does not call Main")
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = names[0], mtu
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: names[1], PeerMTU: mtu})
		if err != nil {
			return nil, fmt.Errorf("xdpwire: make the wire: %w", err)
		}
		for _, name := range []string{"lo", names[0], names[1]} {
			l, err := netlink.LinkByName(name)
			if err == nil {
				err = netlink.LinkSetUp(l)
			}
			if err != nil {
				return nil, fmt.Errorf("xdpwire: %s: %w", name, err)
			}
		}
	}
	for i, name := range names {
		is, err := net.InterfaceByName(name)
		if err != nil {
			return nil, err
		}
		w.ends[i] = is
	}
	return w, nil
}

func addAddr(is *net.Interface, a netip.Addr) error {
	l, err := netlink.LinkByIndex(is.Index)
	if err != nil {
		return err
	}
	return netlink.AddrReplace(l, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(),
		Mask: net.CIDRMask(17, 32)}})
}

// lookUp is the LookUp of all nodes.
func (w *wire) lookUp(iface int, src, dst netip.Addr) (way xsk.Way, ok bool) {
	from, to := endOf(src), endOf(dst)
	if from < 0 || to < 0 || from == to || w.ends[from].Index != iface {
		return way, false
	}
	return xsk.Way{Own: [6]byte(w.ends[from].HardwareAddr),
		Neighbour: [6]byte(w.ends[to].HardwareAddr), MTU: w.ends[from].MTU}, true
}

// endOf returns the end that has an address, -1 for none.
func endOf(a netip.Addr) int {
	switch {
	case netip.MustParsePrefix("10.9.0.0/17").Contains(a):
		return 0
	case netip.MustParsePrefix("10.9.128.0/17").Contains(a):
		return 1
	}
	return -1
}
