// SPDX-License-Identifier: BSD-2-Clause

package ifwatch

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
	"verbena/internal/testkit/netns"
)

// newNetwork is the calling test's own, with an interface d0, which is down; d1
// at the other end of its wire is up. It is nil where the test has been done
// elsewhere.
func newNetwork(t *testing.T) *netns.Network {
	t.Helper()
	n := netns.New(t)
	if n != nil {
		n.AddWire("d0", "d1")
		must(t, n.LinkSetUp(n.Link("d1")))
	}
	return n
}

// ear hears the changes of d0 that one watcher is told.
type ear struct {
	t *testing.T
	c chan Change
}

func listening(t *testing.T) (ear, func()) {
	t.Helper()
	e := ear{t, make(chan Change, 100)}
	stop, err := Watch(func(c Change) {
		if c.NetDev == "d0" {
			e.c <- c
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, stop
}

// want waits for a change; those to skip may come before it.
func (e ear) want(what string, c Change, skip ...Event) {
	e.t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case got := <-e.c:
			if got == c {
				return
			}
			if got.NetDev != c.NetDev || !slices.Contains(skip, got.Event) {
				e.t.Fatalf("%s: %v, not %v", what, got, c)
			}
		case <-limit:
			e.t.Fatalf("%s: no %v", what, c)
		}
	}
}

func (e ear) quiet(what string) {
	e.t.Helper()
	select {
	case got := <-e.c:
		e.t.Errorf("%s: %v", what, got)
	default:
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWatch goes through the life of an interface.
func TestWatch(t *testing.T) {
	n := newNetwork(t)
	if n == nil {
		return
	}
	e, stop := listening(t)
	defer stop()
	other, stopOther := listening(t)

	n.Add("d0", "192.0.2.1/24")
	e.want("an address", Change{"d0", Addrs})
	other.want("the other watcher", Change{"d0", Addrs})
	stopOther()

	n.Up("d0")
	e.want("up", Change{"d0", Up})
	n.Down("d0")
	e.want("down", Change{"d0", Down}, Addrs)
	n.Remove("d0", "192.0.2.1/24")
	e.want("no address", Change{"d0", Addrs}, Addrs)
	n.Delete("d0")
	e.want("removed", Change{"d0", Gone}, Addrs)
	e.quiet("after the interface was removed")
	other.quiet("a watcher that stopped")
}

// TestAddressesComeTogether wants fewer changes than addresses: addresses that come in one message
// make one change.
func TestAddressesComeTogether(t *testing.T) {
	n := newNetwork(t)
	if n == nil {
		return
	}
	e, stop := listening(t)
	defer stop()
	const addrs = 50
	began := time.Now()
	for i := range addrs {
		n.Add("d0", "198.51.100."+strconv.Itoa(i+1)+"/32")
	}
	windows := int(time.Since(began)/gather) + 2
	n.Up("d0")
	for heard := 0; ; heard++ {
		c := <-e.c
		if c == (Change{"d0", Up}) {
			if heard == 0 || heard > windows {
				t.Errorf("%d changes for %d addresses within %d times %v", heard, addrs, windows, gather)
			}
			return
		}
	}
}

// overrun is more messages than the smallest socket buffer holds.
const overrun = 100

// TestOverrun has the kernel drop messages: the picture is taken anew.
func TestOverrun(t *testing.T) {
	n := newNetwork(t)
	if n == nil {
		return
	}
	l, d0 := overrunListener(t, n), n.Link("d0").Attrs().Index
	defer l.close()
	if p := l.picture[d0]; p == nil || p.running {
		t.Fatalf("picture of d0: %+v", p)
	}
	var c changes
	must(t, l.read(0, &c)) // ENOBUFS comes first
	if got := text(c); got != "d0:addrs" {
		t.Errorf("after lost messages: %q", got)
	}
	if n := len(l.picture[d0].addrs); n != overrun {
		t.Errorf("the picture has %d addresses, not %d", n, overrun)
	}
	go l.run() // for close
}

// overrunListener is a listener whose socket has overflowed while d0 got
// addresses.
func overrunListener(t *testing.T, n *netns.Network) *listener {
	t.Helper()
	l, err := subscribe(func(*listener, []Change) {})
	must(t, err)
	l.picture, err = dump()
	must(t, err)
	must(t, unix.SetsockoptInt(l.socket, unix.SOL_SOCKET, unix.SO_RCVBUF, 1)) // the least there is
	for i := range overrun {
		n.Add("d0", "198.51.100."+strconv.Itoa(i+1)+"/32")
	}
	return l
}

// TestStopEndsTheListener wants the descriptor noted for forked children while
// somebody watches, and closed afterwards.
func TestStopEndsTheListener(t *testing.T) {
	for range 3 {
		_, stop := listening(t)
		_, stopToo := listening(t)
		mu.Lock()
		l := current
		mu.Unlock()
		fd := l.socket
		if !isHeld(fd) {
			t.Error("a forked child would not close the descriptor")
		}
		stop()
		select {
		case <-l.done:
			t.Fatal("the listener ended before its last watcher")
		default:
		}
		stopToo()
		stopToo() // does nothing
		<-l.done
		if isHeld(fd) {
			t.Error("a descriptor that was closed is noted still")
		}
	}
}

func isHeld(fd int) (found bool) {
	fdtrack.Each(func(n int) { found = found || n == fd })
	return found
}
