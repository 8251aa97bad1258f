// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/udp"
	"verbena/internal/sys/xsk"
	"verbena/internal/testkit/netns"
)

// table is a Steering that only notes what it is told.
type table struct {
	addrs  map[netip.Addr]bool
	slots  map[int]int // sockets, by slot
	ports  map[netip.AddrPort]int
	closed bool
}

func (s *table) Add(a netip.Addr) error {
	s.addrs[a] = true
	return nil
}

func (s *table) Remove(a netip.Addr) { delete(s.addrs, a) }

func (s *table) Give(slot int, sockets []int) error {
	s.slots[slot] = len(sockets)
	return nil
}

func (s *table) Take(slot int) { delete(s.slots, slot) }

func (s *table) AddPort(a netip.AddrPort, slot int) error {
	s.ports[a] = slot
	return nil
}

func (s *table) RemovePort(a netip.AddrPort) { delete(s.ports, a) }

func (s *table) Close() { s.closed = true }

// has fails the test unless the addresses are those.
func (s *table) has(t *testing.T, when string, want ...string) {
	t.Helper()
	var got []string
	for a := range maps.Keys(s.addrs) {
		got = append(got, a.String())
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: datagrams to %v are steered, want %v", when, got, want)
	}
}

// frameKeeper returns a keeper in the test's namespace, and its tables by interface.
func frameKeeper(t *testing.T) (k *keeper, tables map[string]*table) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EAFNOSUPPORT) {
		t.Skipf("needs CAP_NET_RAW and a kernel with AF_XDP: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	dir := t.TempDir()
	ps, err := openDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	tables = map[string]*table{}
	k, err = newKeeper(ps, testRules(dir), func(i *net.Interface, _ int) (Steering, error) {
		tables[i.Name] = &table{addrs: map[netip.Addr]bool{}, slots: map[int]int{}, ports: map[netip.AddrPort]int{}}
		return tables[i.Name], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.close(false) })
	return k, tables
}

// wire returns a network whose interfaces xa and xb are up, or nil in the parent of the test.
func wire(t *testing.T) *netns.Network {
	t.Helper()
	n := netns.New(t)
	if n != nil {
		n.AddWire("xa", "xb")
		n.Up("xa", "xb")
	}
	return n
}

// receive makes the groups of addresses.
func receive(t *testing.T, k *keeper, addrs ...string) {
	t.Helper()
	for _, a := range addrs {
		if _, err := k.socketOf(noSlot, netip.MustParseAddr(a)); err != nil {
			t.Fatal(err)
		}
	}
}

func seat(t *testing.T, k *keeper, slot int, name string) *xsk.Seat {
	t.Helper()
	s, err := k.framesOf(slot, Interface{Name: name, Queues: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The datagrams of an interface reach the addresses of that interface alone, whether the address or
// the first process's frames come first.
func TestFramesAreForAddressesOfTheInterface(t *testing.T) {
	n := wire(t)
	if n == nil {
		return
	}
	n.Add("xa", "10.9.0.1/24")
	n.Add("xa", "10.9.0.3/24")
	n.Add("xb", "10.9.0.2/24")
	n.Add("xa", "127.9.0.1/8")
	n.Up("lo")
	k, tables := frameKeeper(t)
	receive(t, k, "127.0.0.1", "::1", "127.9.0.1", "10.9.0.1", "10.9.0.2")
	seat(t, k, 3, "xa")
	seat(t, k, 3, "xb")
	tables["xa"].has(t, "at first", "10.9.0.1")
	tables["xb"].has(t, "at first", "10.9.0.2")
	receive(t, k, "127.0.0.2", "10.9.0.3")
	tables["xa"].has(t, "later", "10.9.0.1", "10.9.0.3")
	tables["xb"].has(t, "later", "10.9.0.2")
	n.Remove("xa", "10.9.0.3/24")
	n.Add("xb", "10.9.0.3/24")
	receive(t, k, "10.9.0.3")
	tables["xa"].has(t, "after an address moved", "10.9.0.1")
	tables["xb"].has(t, "after an address moved", "10.9.0.2", "10.9.0.3")
}

// A process that asks again for frames of an interface is refused, and keeps those that it has.
func TestFramesOfASlotAreAskedForOnce(t *testing.T) {
	if wire(t) == nil {
		return
	}
	k, tables := frameKeeper(t)
	first := seat(t, k, 3, "xa")
	if s, err := k.framesOf(3, Interface{Name: "xa", Queues: 1}); err == nil {
		t.Errorf("the second seat is %+v", s)
	}
	if len(first.Sockets) != 1 || tables["xa"].slots[3] != 1 || tables["xa"].closed {
		t.Errorf("the first seat is %+v, its table %+v", first, tables["xa"])
	}
	if other := seat(t, k, 4, "xa"); other.Place == first.Place {
		t.Errorf("two processes have place %d", first.Place)
	}
}

// An error of the keeper without a number has none at the process either. (A device that named an
// interface which is not there was refused with errno 0.)
func TestErrorOfTheKeeperWithoutNumber(t *testing.T) {
	for _, want := range []syscall.Errno{0, syscall.EPERM} {
		var got syscall.Errno
		err := &FramesError{"eth9", &keeperError{"there is no such interface", want}}
		if has := errors.As(err, &got); has != (want != 0) || got != want {
			t.Errorf("number %d of the keeper: %t, %d", int(want), has, int(got))
		}
	}
}

// An interface that was deleted and made again, or has another's name, has frames of its own.
func TestFramesOfAnInterfaceMadeAgain(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	k, tables := frameKeeper(t)
	var first *table
	join := func(other string) {
		n.AddWire("xa", other)
		n.Up("xa", other)
	}
	for slot, before := range []func(){
		func() { join("xb") },
		func() { n.Delete("xa"); join("xb") },
		func() {
			if err := n.LinkSetName(n.Link("xa"), "xc"); err != nil {
				t.Fatal(err)
			}
			join("xd")
		},
	} {
		before()
		seat(t, k, slot, "xa")
		if got := tables["xa"]; len(got.slots) != 1 || got.slots[slot] != 1 {
			t.Errorf("slot %d: the interface has the seats %v", slot, got.slots)
		}
		if slot == 0 {
			first = tables["xa"]
		}
	}
	k.create <- struct{}{}
	k.leaveSeats(0)
	<-k.create
	if !first.closed || tables["xa"].closed || len(k.frames) != 2 {
		t.Errorf("%d pools are left, the first process's %+v, the last one's %+v", len(k.frames), first, tables["xa"])
	}
}

// A pool that the kernel refuses says what to do about it.
func TestFramesOfTooManyQueues(t *testing.T) {
	if wire(t) == nil {
		return
	}
	k, _ := frameKeeper(t)
	_, err := k.framesOf(3, Interface{Name: "xa", Queues: 4})
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "ethtool -l") || !strings.Contains(err.Error(), "Linux 6.6") {
		t.Errorf("%v", err)
	}
	seat(t, k, 3, "xa")
}

// A port is steered to the process that shows a socket there, and to no other.
func TestPortsOfFrames(t *testing.T) {
	n := wire(t)
	if n == nil {
		return
	}
	n.Add("xa", "10.9.0.1/24")
	n.Add("xb", "10.9.0.2/24")
	n.Up("lo")
	k, tables := frameKeeper(t)
	seat(t, k, 3, "xa")
	seat(t, k, 4, "xa")
	bound := func(a string) *udp.Socket {
		s, err := udp.Listen(netip.MustParseAddr(a), 0, udp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	index := func(name string) int {
		if is, err := net.InterfaceByName(name); err == nil {
			return is.Index
		}
		return 1 << 20
	}
	ask := func(kind kind, slot int, name string, a netip.AddrPort, s *udp.Socket) error {
		f := frame{Kind: kind, Count: uint64(index(name)), Src: a}
		if s != nil {
			f.fds = []int{s.FD()}
		}
		return k.steerPort(slot, f)
	}
	loose := bound("10.9.0.1")
	if err := unix.SetsockoptInt(loose.FD(), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	tied := bound("10.9.0.1")
	if err := unix.BindToDevice(tied.FD(), "xa"); err != nil {
		t.Fatal(err)
	}
	mine, other, third := bound("10.9.0.1"), bound("10.9.0.2"), bound("10.9.0.1")
	own := mine.LocalAddr()
	for _, c := range []struct {
		what string
		err  error
		want error
	}{
		{"its own", ask(kindPort, 3, "xa", own, mine), nil},
		{"the same again", ask(kindPort, 4, "xa", own, mine), syscall.EADDRINUSE},
		{"of another socket", ask(kindPort, 4, "xa", third.LocalAddr(), mine), errNotItsPort},
		{"without a socket", ask(kindPort, 4, "xa", third.LocalAddr(), nil), syscall.EINVAL},
		{"of another interface", ask(kindPort, 3, "xa", other.LocalAddr(), other), syscall.EINVAL},
		{"RoCEv2's", ask(kindPort, 3, "xa", netip.AddrPortFrom(own.Addr(), Port), mine), syscall.EINVAL},
		{"of no seat", ask(kindPort, 3, "xb", other.LocalAddr(), other), syscall.ENOENT},
		{"of no interface", ask(kindPort, 3, "xc", own, mine), syscall.ENOENT},
		{"that others may bind", ask(kindPort, 3, "xa", loose.LocalAddr(), loose), errNotItsPort},
		{"of a device", ask(kindPort, 3, "xa", tied.LocalAddr(), tied), errNotItsPort},
		{"another process's end", ask(kindUnport, 4, "xa", own, nil), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.err, c.want)
		}
	}
	if err := ask(kindPort, 4, "xa", third.LocalAddr(), third); err != nil {
		t.Error(err)
	}
	if p := tables["xa"].ports; len(p) != 2 || p[own] != 3 || p[third.LocalAddr()] != 4 {
		t.Errorf("ports %v", p)
	}
	mine.Close()
	free := func() bool {
		s, err := udp.Listen(own.Addr(), own.Port(), udp.Options{})
		if err == nil {
			s.Close()
		}
		return err == nil
	}
	if free() {
		t.Error("a stranger has a port that is steered")
	}
	xa := index("xa")
	n.Down("xa")
	if err := n.LinkSetName(n.Link("xa"), "xr"); err != nil {
		t.Fatal(err)
	}
	k.steerPort(3, frame{Kind: kindUnport, Count: uint64(xa), Src: own})
	if _, ok := tables["xa"].ports[own]; ok {
		t.Error("a port is steered after its interface has another name")
	}
	n.Up("xr")
	if !free() {
		t.Error("the port is not free after its end")
	}
	k.create <- struct{}{}
	k.leaveSeats(4)
	<-k.create
	if p := tables["xa"].ports; len(p) != 0 {
		t.Errorf("ports %v are steered after their end", p)
	}
}

func TestListsOfInterfaces(t *testing.T) {
	for list, want := range map[string][]Interface{
		"":            nil,
		"eth0":        {{"eth0", 1}},
		"eth0,eth1:4": {{"eth0", 1}, {"eth1", 4}},
	} {
		if got, err := ParseInterfaces(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
	for _, list := range []string{",", "eth0,", ":2", "eth0:0", "eth0:9", "eth0:x", "eth0,eth0", "eth0:2,eth1,eth0:4"} {
		if got, err := ParseInterfaces(list); err == nil {
			t.Errorf("%q: %v", list, got)
		}
	}
}
