// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
)

// meeting is a listener that is served, and its events.
type meeting struct {
	*Listener
	path     string
	self     Identity
	event    int
	arrivals chan *In
	gone     chan any
	stop     chan struct{}
	stopped  chan struct{}
}

func listen(t *testing.T, slot int) *meeting {
	t.Helper()
	self, err := NetNamespace(slot)
	if err != nil {
		t.Fatal(err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	m := &meeting{path: filepath.Join(t.TempDir(), "ring"), self: self, event: event,
		arrivals: make(chan *In, 8), gone: make(chan any, 8), stop: make(chan struct{}), stopped: make(chan struct{})}
	m.Listener, err = Listen(m.path, self, event, func(in *In) { m.arrivals <- in }, func(end any) { m.gone <- end })
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.stopped)
		for {
			select {
			case <-m.stop:
				return
			default:
				unix.Poll([]unix.PollFd{{Fd: int32(m.FD()), Events: unix.POLLIN}}, 1)
				m.Serve()
			}
		}
	}()
	t.Cleanup(func() {
		close(m.stop)
		<-m.stopped
		m.Close()
		unix.Close(event)
	})
	return m
}

const patience = 20 * time.Second

func receive[T any](t *testing.T, c chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// A ring carries bytes and a wake-up from one side to the other, and each learns
// of the other's end.
func TestMeeting(t *testing.T) {
	a, b := listen(t, 1), listen(t, 2)
	before := count()
	out, err := Dial(b.path, a.self, 2, 10*monotime.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Watch(out); err != nil {
		t.Fatal(err)
	}
	in := receive(t, b.arrivals, "the ring")
	if in.Peer.Slot != 1 || out.Peer.Slot != 2 || !out.Alive() {
		t.Errorf("slots %d and %d", in.Peer.Slot, out.Peer.Slot)
	}
	if !in.Arm() {
		t.Error("something waits in a new ring")
	}
	if !out.write(&Message{Tag: 9}, []byte("across")) || !out.MustWake() {
		t.Fatal("not written, or nobody to wake")
	}
	out.Wake()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.event), Events: unix.POLLIN}}, 10000); n != 1 {
		t.Errorf("no wake-up came: %v", err)
	}
	var m Message
	if ok, err := in.Next(&m); !ok || err != nil || string(m.Data) != "across" || m.Tag != 9 {
		t.Errorf("%v, %v, %q", ok, err, m.Data)
	}
	in.Advance()
	b.Forget(in)
	in.Close()
	if end := receive(t, a.gone, "the end"); end != any(out) {
		t.Errorf("%v has gone", end)
	}
	if out.Alive() {
		t.Error("alive after its end")
	}
	out.Close()
	if after := count(); after != before {
		t.Errorf("%d descriptors are held, %d before", after, before)
	}
}

func count() (n int) {
	fdtrack.Each(func(int) { n++ })
	return n
}

// A process other than the expected one is refused.
func TestStrangers(t *testing.T) {
	b := listen(t, 2)
	for name, self := range map[string]Identity{
		"another network namespace": {Slot: 1, NetDev: b.self.NetDev, NetIno: b.self.NetIno + 1},
		"another device of them":    {Slot: 1, NetDev: b.self.NetDev + 1, NetIno: b.self.NetIno},
		"its own slot":              b.self,
	} {
		if out, err := Dial(b.path, self, 2, 10*monotime.Second); err == nil {
			t.Errorf("%s: got a ring", name)
			out.Close()
		}
	}
	self := b.self
	self.Slot = 1
	if out, err := Dial(b.path, self, 3, 10*monotime.Second); err == nil {
		t.Error("got a ring to slot 3 from slot 2")
		out.Close()
	}
	for range len(b.arrivals) { // the last one did arrive, as its side cannot know
		in := <-b.arrivals
		b.Forget(in)
		in.Close()
	}
	if _, err := Dial(b.path+"-not", self, 2, 10*monotime.Second); err == nil {
		t.Error("got a ring where nobody listens")
	}
}

// Data that is no hello, or comes without memory that can be relied on, ends the connection, and
// the next one is served.
func TestHostileCallers(t *testing.T) {
	b := listen(t, 2)
	right := hello{bytes: totalBytes, who: Identity{Slot: 1, NetDev: b.self.NetDev, NetIno: b.self.NetIno}}.append(nil)
	short, err := unix.MemfdCreate("short", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(short)
	unix.Ftruncate(short, totalBytes-4096)
	unsealed, _ := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	defer unix.Close(unsealed)
	unix.Ftruncate(unsealed, totalBytes)
	if _, err := unix.FcntlInt(uintptr(short), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	null, _ := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	defer unix.Close(null)
	version := append([]byte(nil), right...)
	version[8]++
	for name, c := range map[string]struct {
		b   []byte
		fds []int
	}{
		"nothing":            {[]byte{0}, nil},
		"no memory":          {right, nil},
		"too short a memory": {right, []int{short}},
		"memory not sealed":  {right, []int{unsealed}},
		"a device":           {right, []int{null}},
		"two descriptors":    {right, []int{short, unsealed}},
		"another version":    {version, []int{unsealed}},
		"half a hello":       {right[:20], []int{unsealed}},
		"more than a hello":  {append(append([]byte(nil), right...), 0), []int{unsealed}},
		"a great hello":      {make([]byte, 4096), make([]int, 20)},
	} {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: b.path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := conn.WriteMsgUnix(c.b, unix.UnixRights(c.fds...), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		conn.SetReadDeadline(time.Now().Add(patience))
		var answer [64]byte
		if n, _, _, _, err := conn.ReadMsgUnix(answer[:], nil); n > 0 || os.IsTimeout(err) {
			t.Errorf("%s: an answer of %d bytes (%v)", name, n, err)
		}
		conn.Close()
	}
	self := b.self
	self.Slot = 1
	out, err := Dial(b.path, self, 2, 10*monotime.Second)
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	in := receive(t, b.arrivals, "the ring")
	if end := receive(t, b.gone, "its end"); end != any(in) {
		t.Errorf("%v has gone", end)
	}
	in.Close()
}

// A listener that does not answer in time gets the ring when it does, with everything written to
// it. The process that watches the ring, or wakes it, gets the answer.
func TestSilence(t *testing.T) {
	for _, watched := range []bool{false, true} {
		a := listen(t, 1)
		event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(event)
		arrivals := make(chan *In, 1)
		path, self := filepath.Join(t.TempDir(), "ring"), Identity{Slot: 2, NetDev: a.self.NetDev, NetIno: a.self.NetIno}
		l, err := Listen(path, self, event, func(in *In) { arrivals <- in }, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		before := count()
		out, err := Dial(path, a.self, 2, monotime.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if watched {
			if err := a.Watch(out); err != nil {
				t.Fatal(err)
			}
		}
		if !out.Alive() || !out.write(&Message{Tag: 9}, []byte("early")) || out.MustWake() {
			t.Error("nothing can be written to a process that has not answered")
		}
		out.Wake()
		for len(arrivals) == 0 {
			l.Serve()
		}
		in := <-arrivals
		var m Message
		if ok, err := in.Next(&m); !ok || err != nil || string(m.Data) != "early" {
			t.Errorf("%v, %v, %q", ok, err, m.Data)
		}
		in.Advance()
		if !in.Arm() || !out.Alive() || !out.write(&Message{}, []byte("late")) || !out.MustWake() {
			t.Error("nothing more is read")
		}
		out.Wake()
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(event), Events: unix.POLLIN}}, 10000); n != 1 {
			t.Errorf("no wake-up came: %v", err)
		}
		l.Forget(in)
		in.Close()
		if watched {
			if receive(t, a.gone, "the end") != any(out) || !out.PeerEnded() {
				t.Error("another end")
			}
		}
		out.Close()
		if after := count(); after != before {
			t.Errorf("%d descriptors are held, %d before", after, before)
		}
	}
}

// One that refuses a ring late has not ended, and neither has one that gives it up.
func TestRingIsGivenUp(t *testing.T) {
	a := listen(t, 1)
	path := filepath.Join(t.TempDir(), "ring")
	l, err := Listen(path, Identity{Slot: 2}, 0, nil, nil) // of another network namespace
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := Dial(path, a.self, 2, monotime.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Watch(out); err != nil {
		t.Fatal(err)
	}
	for len(a.gone) == 0 {
		l.Serve()
	}
	if <-a.gone != any(out) || out.PeerEnded() {
		t.Error("a refusal is taken for the end of a process")
	}
	out.Close()

	b := listen(t, 2)
	if out, err = Dial(b.path, a.self, 2, 10*monotime.Second); err != nil {
		t.Fatal(err)
	}
	if err := a.Watch(out); err != nil {
		t.Fatal(err)
	}
	in := receive(t, b.arrivals, "the ring")
	in.HangUp()
	if receive(t, a.gone, "the end") != any(out) || out.PeerEnded() {
		t.Error("a ring given up is taken for the end of a process")
	}
	receive(t, b.gone, "its end")
	in.Close()
	out.Close()
}

// A thread may be in Await while another closes the ring, and a third opens descriptors with the
// numbers that the ring had. Those belong to the third.
func TestClosedRingUsesNoDescriptor(t *testing.T) {
	for _, answered := range []bool{false, true} {
		self, err := NetNamespace(2)
		if err != nil {
			t.Fatal(err)
		}
		event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(event)
		l, err := Listen(filepath.Join(t.TempDir(), "ring"), self, event, func(in *In) {
			t.Cleanup(in.Close)
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		caller := self
		caller.Slot = 1
		out, err := Dial(l.path, caller, 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		for answered && out.Alive() && !out.Taken() {
			l.Serve()
		}
		if !out.Alive() || out.Taken() != answered {
			t.Fatalf("alive: %v, taken: %v", out.Alive(), out.Taken())
		}
		pair, err := unix.Socketpair(unix.AF_UNIX,
			unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[0])
		defer unix.Close(pair[1])
		numbers := []int{out.fd}
		if answered {
			numbers = append(numbers, out.event)
		}
		out.Close()
		for _, n := range numbers {
			if got, err := unix.FcntlInt(uintptr(pair[0]), unix.F_DUPFD_CLOEXEC, n); got != n {
				t.Fatalf("descriptor %d instead of %d: %v", got, n, err)
			}
		}
		if _, err := unix.Write(pair[1], []byte("theirs")); err != nil {
			t.Fatal(err)
		}
		if out.Alive() || out.Await(monotime.Millisecond) || out.Taken() || !out.departed() {
			t.Error("a closed ring is not closed")
		}
		out.Wake()
		out.HangUp()
		out.Close()
		b := make([]byte, 64)
		if n, err := unix.Read(pair[1], b); err != unix.EAGAIN {
			t.Errorf("answered: %v: %q was written to another's descriptor: %v", answered,
				b[:max(n, 0)], err)
		}
		for _, n := range numbers {
			if m, err := unix.Read(n, b); err != nil || string(b[:m]) != "theirs" {
				t.Errorf("answered: %v: another's descriptor has %q: %v", answered, b[:max(m, 0)], err)
			}
			if _, err := unix.Write(pair[1], []byte("theirs")); err != nil {
				t.Error(err)
			}
			if err := unix.Close(n); err != nil {
				t.Errorf("answered: %v: another's descriptor: %v", answered, err)
			}
		}
	}
}

const childPath = "VERBENA_RING_TEST"

// TestKilledWriter makes a process write without end and be killed: its entries are whole up to
// some entry, the rest is not there, and its end is noticed.
func TestKilledWriter(t *testing.T) {
	if path := os.Getenv(childPath); path != "" {
		writeForEver(path)
	}
	b := listen(t, 2)
	for round := range 10 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		cmd.Env = append(os.Environ(), childPath+"="+b.path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in := receive(t, b.arrivals, "the ring")
		next := 0
		read := func() {
			var m Message
			ok, err := in.Next(&m)
			if err != nil {
				t.Fatalf("after entry %d: %v", next, err)
			}
			if !ok {
				return
			}
			for _, v := range m.Data {
				if v != byte(next) {
					t.Fatalf("entry %d has a byte of %d", next, v)
				}
			}
			in.Advance()
			next++
		}
		for next < 100*(round+1) {
			read()
		}
		cmd.Process.Kill()
		cmd.Wait()
		if end := receive(t, b.gone, "the end"); end != any(in) {
			t.Fatalf("%v has gone", end)
		}
		for in.Waiting() {
			read()
		}
		in.Close()
	}
}

func writeForEver(path string) {
	self, err := NetNamespace(1)
	if err != nil {
		panic(err)
	}
	out, err := Dial(path, self, 2, 20*monotime.Second)
	if err != nil {
		panic(err)
	}
	b := make([]byte, 3000)
	for i := 0; ; i++ {
		for at := range b {
			b[at] = byte(i)
		}
		for !out.write(&Message{}, b[:1+i*37%len(b)]) {
			if !out.Alive() {
				os.Exit(0)
			}
		}
	}
}
