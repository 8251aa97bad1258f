// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/channel"
	wire "verbena/internal/wire/ntb"
)

func placeConfig(t *testing.T, endpoint string, slot int) PlaceConfig {
	t.Helper()
	list, err := ParseEndpoints(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return PlaceConfig{Endpoint: list[0], Slot: slot, SessionBytes: windowBytes, MemoryBytes: windowBytes}
}

func newPlace(t *testing.T, endpoint string, slot int) *Place {
	t.Helper()
	p, err := Join(placeConfig(t, endpoint, slot))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

type opened struct {
	m   Member
	s   *Session
	err error
}

// goNext is Next on a goroutine.
func goNext(p *Place) chan opened {
	c := make(chan opened, 1)
	go func() {
		var o opened
		o.m, o.s, o.err = p.Next(10 * time.Second)
		c <- o
	}()
	return c
}

// open opens a link between two members, which b wants.
func open(t *testing.T, a, b *Place) (*Session, *Session) {
	t.Helper()
	b.Want(a.Self())
	c := goNext(a)
	m, far, err := b.Next(10 * time.Second)
	o := <-c
	if err != nil || o.err != nil || m != a.Self() || o.m != b.Self() {
		t.Fatalf("%v %v, %v %v", m, err, o.m, o.err)
	}
	for _, s := range []*Session{o.s, far} {
		t.Cleanup(func() { s.Close(); s.Free() })
	}
	return o.s, far
}

// connected joins a place on the other side of one, and opens a link.
func connected(t *testing.T, a *Place, slot int) (near, far *Session) {
	t.Helper()
	return open(t, a, newPlace(t, "shm:c:"+a.config.Endpoint.Path, slot))
}

// writes has one end of a link write, and the other look.
func writes(t *testing.T, from, to *Session) {
	t.Helper()
	before := to.Own().Load8(8192)
	b := channel.NewBatch()
	b.Word8(8192, before+1)
	if err := from.Write(b); err != nil {
		t.Fatal(err)
	}
	if got := to.Own().Load8(8192); got != before+1 {
		t.Errorf("wrote %d, the other finds %d", before+1, got)
	}
}

// Any number on either side, each pair with a link and windows of its own, each with one to
// itself; the application's memory is the same in all of them.
func TestPlaceAllToAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	all := []*Place{newPlace(t, "shm:s:"+dir, 1), newPlace(t, "shm:s:"+dir, 2), newPlace(t, "shm:c:"+dir, 64), newPlace(t, "shm:c:"+dir, Slots-1)}
	for i, p := range all {
		addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		if err := p.Announce([]netip.Addr{addr}); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range all {
		list := p.Members()
		if len(list) != len(all) {
			t.Fatalf("%v sees %v", p.Self(), list)
		}
		for k, m := range list {
			if m.Member != all[k].Self() || len(m.Addrs) != 1 || m.Addrs[0].As4()[3] != byte(k) || !p.Present(m.Member) {
				t.Errorf("%v sees %v at %d", p.Self(), m, k)
			}
		}
		if p.Present(Member{0, 3}) || p.Present(Member{0, -1}) || p.Present(Member{2, 0}) {
			t.Error("somebody is there who is not")
		}
		for _, q := range all[i+1:] {
			near, far := open(t, p, q)
			writes(t, near, far)
			writes(t, far, near)
			b := channel.NewBatch()
			b.Word8(windowBytes+8*uint64(i), 77)
			if err := far.Write(b); err != nil {
				t.Fatal(err)
			}
			if p.Memory()[8*i] != 77 {
				t.Error("what is written behind the session is not in the application's memory")
			}
			p.Memory()[8*i] = 0
		}
		p.Want(p.Self())
		m, s, err := p.Next(time.Second)
		if err != nil || m != p.Self() {
			t.Fatal(m, err)
		}
		writes(t, s, s)
		s.Ring()
		if ok, err := poll([]unix.PollFd{{Fd: int32(s.FDs()[0]), Events: unix.POLLIN}}, 0); !ok || err != nil {
			t.Errorf("it does not wake itself: %v", err)
		}
		if err := s.Wait(0); err != nil {
			t.Error(err)
		}
		s.Close()
		s.Free()
	}
}

// Two that want each other at once get one link.
func TestPlaceBothWant(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	a, b := newPlace(t, "shm:s:"+dir, 1), newPlace(t, "shm:c:"+dir, 1)
	for range 50 {
		a.Want(b.Self())
		b.Want(a.Self())
		ca, cb := goNext(a), goNext(b)
		x, y := <-ca, <-cb
		if x.err != nil || y.err != nil {
			t.Fatal(x.err, y.err)
		}
		a.Settled(b.Self())
		b.Settled(a.Self())
		writes(t, x.s, y.s)
		writes(t, y.s, x.s)
		for _, o := range []opened{x, y} {
			o.s.Close()
			o.s.Free()
		}
		for _, p := range []*Place{a, b} {
			if m, s, err := p.Next(0); s != nil || err != ErrTimeout {
				t.Fatalf("one more: %v %v", m, err)
			}
		}
	}
}

// A member that answers a guest, while it dials that guest, has hung up by then. The guest may look
// at its own guests before anything else, and is not to find that dial among them.
func TestPlaceHangsUpBeforeItAnswers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	a, b := newPlace(t, "shm:s:"+dir, 1), newPlace(t, "shm:c:"+dir, 1)
	b.Want(a.Self())
	if _, s, err := b.Next(0); s != nil || err != ErrTimeout || b.dials[a.Self()].socket == none {
		t.Fatalf("it does not dial: %v %v", s, err)
	}
	f, err := connect(unix.AF_UNIX, unix.SOCK_SEQPACKET, &unix.SockaddrUnix{Name: b.path(b.Self())}, none, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	h, err := a.newHalf()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.introduce(f, &h); err != nil {
		t.Fatal(err)
	}
	f.close() // gets no answer
	h.close()
	for range 2 { // it is let in, and answered
		if _, s, err := b.Next(0); s != nil || err != ErrTimeout {
			t.Fatalf("%v %v", s, err)
		}
	}
	if x := b.dials[a.Self()]; x == nil || x.socket != none {
		t.Fatalf("its dial is over, %v, or goes on while it answers", x == nil)
	}
	if m, s, err := a.Next(0); s != nil || err != ErrTimeout {
		t.Errorf("a dial that was hung up is a link to %v: %v", m, err)
	}
	ca, cb := goNext(a), goNext(b) // the dial is taken up again
	x, y := <-ca, <-cb
	if x.err != nil || y.err != nil {
		t.Fatal(x.err, y.err)
	}
	writes(t, x.s, y.s)
	writes(t, y.s, x.s)
	for _, o := range []opened{x, y} {
		o.s.Close()
		o.s.Free()
	}
}

// Among processes without a given side, the first is of side 0 and all others of side 1; when it
// has gone the next one is.
func TestPlaceSides(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	c := placeConfig(t, "shm:"+dir, 1)
	if side := SideOf(c.Endpoint); side != 0 {
		t.Errorf("who would come first gets side %d", side)
	}
	first := newPlace(t, "shm:"+dir, 1)
	second, third := newPlace(t, "shm:"+dir, 1), newPlace(t, "shm:"+dir, 2)
	for p, want := range map[*Place]Member{first: {0, 1}, second: {1, 1}, third: {1, 2}} {
		if p.Self() != want {
			t.Errorf("%v, want %v", p.Self(), want)
		}
	}
	if side := SideOf(c.Endpoint); side != 1 {
		t.Errorf("who comes now gets side %d", side)
	}
	if _, err := Join(c); !errors.Is(err, ErrInUse) {
		t.Errorf("the same slot twice: %v", err)
	}
	if got := third.addrs(second.Self()); got != nil {
		t.Errorf("addresses %v", got)
	}
	first.Close()
	if again := newPlace(t, "shm:"+dir, 5); again.Self() != (Member{0, 5}) {
		t.Errorf("after the first has left: %v", again.Self())
	}
	third.Want(Member{0, 1})
	if m, _, err := third.Next(time.Second); !errors.Is(err, ErrLost) || m != (Member{0, 1}) {
		t.Errorf("one who has left: %v, %v", m, err)
	}
}

func TestPlaceServices(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	a, b, c := newPlace(t, "shm:s:"+dir, 1), newPlace(t, "shm:s:"+dir, Slots-1), newPlace(t, "shm:c:"+dir, 1)
	ids := []uint64{0, 1, 0x1060000, 0x1060001, 1<<64 - 1, 1 << 63, 1 << 54, 1 << 50}
	for i, id := range ids {
		owner, other := a, b
		if i%2 == 1 {
			owner, other = b, a
		}
		if _, found := c.Owner(0, id); found {
			t.Errorf("%#x is somebody's", id)
		}
		if err := owner.Claim(id); err != nil {
			t.Fatal(err)
		}
		for _, p := range []*Place{a, b} {
			if err := p.Claim(id); !errors.Is(err, ErrInUse) {
				t.Errorf("%#x twice: %v", id, err)
			}
		}
		if err := c.Claim(id); err != nil {
			t.Errorf("%#x of the other side: %v", id, err)
		}
		other.Unclaim(id) // it is not its own
	}
	for i, id := range ids {
		want := []*Place{a, b}[i%2]
		for _, p := range []*Place{a, b, c} {
			if m, found := p.Owner(0, id); m != want.Self() || !found {
				t.Errorf("%v says that %v has %#x", p.Self(), m, id)
			}
			if m, found := p.Owner(1, id); m != c.Self() || !found {
				t.Errorf("%v says that %v has %#x", p.Self(), m, id)
			}
		}
	}
	a.Unclaim(ids[0])
	if err := b.Claim(ids[0]); err != nil {
		t.Error(err)
	}
	b.Close()
	if err := a.Claim(ids[1]); err != nil {
		t.Errorf("of one that has left: %v", err)
	}
}

// A member that lives and does not answer, as a process that is stopped, is given
// up, and found again when it does.
func TestPlaceMuteMember(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	a, mute := newPlace(t, "shm:s:"+dir, 1), newPlace(t, "shm:c:"+dir, 1)
	a.patience = 50 * time.Millisecond
	for range 2 {
		a.Want(mute.Self())
		if m, s, err := a.Next(10 * time.Second); m != mute.Self() || s != nil || !errors.Is(err, ErrLost) {
			t.Errorf("%v %v %v", m, s, err)
		}
		a.Settled(mute.Self())
	}
	a.patience = meetPatience
	open(t, mute, a)
}

// A slot is free as soon as its process is dead.
func TestPlaceKilledMember(t *testing.T) {
	if where := os.Getenv("VERBENA_BRIDGE_MEMBER"); where != "" {
		newPlace(t, where, 7)
		os.Stdout.WriteString("here\n")
		select {}
	}
	dir := filepath.Join(t.TempDir(), "place")
	a := newPlace(t, "shm:s:"+dir, 1)
	for range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPlaceKilledMember$")
		cmd.Env = append(os.Environ(), "VERBENA_BRIDGE_MEMBER=shm:c:"+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 5)
		if _, err := out.Read(said); err != nil || string(said) != "here\n" {
			t.Fatalf("%q %v", said, err)
		}
		if !a.Present(Member{1, 7}) {
			t.Error("it is not there")
		}
		if _, err := Join(placeConfig(t, "shm:c:"+dir, 7)); !errors.Is(err, ErrInUse) {
			t.Errorf("its slot: %v", err)
		}
		cmd.Process.Kill()
		cmd.Wait()
		if a.Present(Member{1, 7}) {
			t.Error("it is still there")
		}
	}
}

// A directory that is not ours alone, or has other files than a hub's, is refused with the reason.
func TestPlaceHostileFiles(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func(string) error{
		"a file":             func(at string) error { return os.WriteFile(at, nil, 0o600) },
		"a link":             func(at string) error { return os.Symlink(t.TempDir(), at) },
		"open to others":     func(at string) error { return errors.Join(os.Mkdir(at, 0o700), os.Chmod(at, 0o777)) },
		"members is a link":  func(at string) error { return errors.Join(os.Mkdir(at, 0o700), os.Symlink("/dev/null", at+"/members")) },
		"members is a pipe":  func(at string) error { return errors.Join(os.Mkdir(at, 0o700), unix.Mkfifo(at+"/members", 0o600)) },
		"services is a pipe": func(at string) error { return errors.Join(os.Mkdir(at, 0o700), unix.Mkfifo(at+"/services", 0o600)) },
		"a directory":        func(at string) error { return os.MkdirAll(at+"/0-1", 0o700) },
		"no parent":          func(at string) error { return nil },
	} {
		at := filepath.Join(dir, name)
		if name == "no parent" {
			at = filepath.Join(at, "place")
		}
		if err := make(at); err != nil {
			t.Fatal(err)
		}
		if p, err := Join(placeConfig(t, "shm:s:"+at, 1)); err == nil {
			p.Close()
			t.Errorf("%s: joined", name)
		}
	}
	long := filepath.Join(dir, string(slices.Repeat([]byte("x"), 100)))
	if _, err := Join(placeConfig(t, "shm:"+long, 1)); !errors.Is(err, ErrConfig) {
		t.Errorf("a long path: %v", err)
	}
	c := placeConfig(t, "shm:"+filepath.Join(dir, "sizes"), 1)
	c.SessionBytes = 1000
	if _, err := Join(c); !errors.Is(err, ErrConfig) {
		t.Errorf("a window of 1000 bytes: %v", err)
	}
	c = placeConfig(t, "shm:"+filepath.Join(dir, "slots"), Slots)
	if _, err := Join(c); !errors.Is(err, ErrConfig) {
		t.Errorf("a slot that there is not: %v", err)
	}
	stale := filepath.Join(dir, "stale")
	c = placeConfig(t, "shm:s:"+stale, 1)
	if err := errors.Join(os.Mkdir(stale, 0o700), os.WriteFile(stale+"/0-1", nil, 0o600), os.WriteFile(stale+"/members", []byte("what"), 0o600)); err != nil {
		t.Fatal(err)
	}
	p, err := Join(c)
	if err != nil {
		t.Fatalf("what a dead process left: %v", err)
	}
	p.Close()
}

// A peer whose window could be made shorter under us, that passes something else, or is another
// than it says.
func TestPlaceHostileGuests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	p, peer := newPlace(t, "shm:s:"+dir, 1), newPlace(t, "shm:c:"+dir, 2)
	said := wire.Introduction{Side: 1, Slot: 2, SessionBytes: windowBytes, MemoryBytes: 2 * windowBytes}
	good, stranger, self, short := said.Append(nil), said, said, said
	stranger.Slot, self.Side, self.Slot, short.MemoryBytes = 3, 0, 1, 4096
	memfd := func(n int64, seal int) int {
		f, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		unix.Ftruncate(f, n)
		unix.FcntlInt(uintptr(f), unix.F_ADD_SEALS, seal)
		t.Cleanup(func() { unix.Close(f) })
		return f
	}
	bell, _ := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	blocks, _ := unix.Eventfd(0, unix.EFD_CLOEXEC)
	defer unix.Close(bell)
	defer unix.Close(blocks)
	session, memory := memfd(windowBytes, seals), memfd(2*windowBytes, seals)
	for name, c := range map[string]struct {
		says []byte
		fds  []int
	}{
		"nothing passed":       {good, nil},
		"two passed":           {good, []int{session, memory}},
		"not sealed":           {good, []int{memfd(windowBytes, 0), memory, bell}},
		"memory not sealed":    {good, []int{session, memfd(2*windowBytes, 0), bell}},
		"shorter than said":    {good, []int{memfd(4096, seals), memory, bell}},
		"no memory":            {good, []int{session, bell, bell}},
		"a bell that blocks":   {good, []int{session, memory, blocks}},
		"four passed":          {good, []int{session, memory, bell, bell}},
		"half an introduction": {good[:8], []int{session, memory, bell}},
		"too short a window":   {short.Append(nil), []int{session, memfd(4096, seals), bell}},
		"a stranger":           {stranger.Append(nil), []int{session, memory, bell}},
		"ourselves":            {self.Append(nil), []int{session, memory, bell}},
		"a good one":           {good, []int{session, memory, bell}},
	} {
		f, err := connect(unix.AF_UNIX, unix.SOCK_SEQPACKET, &unix.SockaddrUnix{Name: p.path(p.Self())}, none, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var oob []byte
		if c.fds != nil {
			oob = unix.UnixRights(c.fds...)
		}
		if err := unix.Sendmsg(int(f), c.says, oob, nil, 0); err != nil {
			t.Fatal(err)
		}
		m, s, err := p.Next(300 * time.Millisecond)
		if (s != nil) != (name == "a good one") || s == nil && err != ErrTimeout {
			t.Errorf("%s: %v, %v", name, m, err)
		}
		if s != nil {
			if m != peer.Self() || s.PeerBytes() != 3*windowBytes {
				t.Errorf("%v, %d bytes", m, s.PeerBytes())
			}
			s.Close()
			s.Free()
		}
		f.close()
	}
}

// A place leaves no descriptor and no mapping behind.
func TestPlaceCloses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	before := using(t)
	for range 3 {
		a, err := Join(placeConfig(t, "shm:s:"+dir, 1))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Join(placeConfig(t, "shm:c:"+dir, 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Join(placeConfig(t, "shm:c:"+dir, 1)); err == nil {
			t.Fatal("joined twice")
		}
		b.Want(a.Self())
		if _, _, err := b.Next(0); err != ErrTimeout { // it has not answered
			t.Fatal(err)
		}
		near, err := nextOf(a)
		if err != nil {
			t.Fatal(err)
		}
		far, err := nextOf(b)
		if err != nil {
			t.Fatal(err)
		}
		a.Want(b.Self())
		if _, _, err := a.Next(0); err != ErrTimeout { // one that stays half open
			t.Fatal(err)
		}
		near.Close()
		if err := far.Wait(time.Second); err != ErrLost {
			t.Errorf("the peer has gone: %v", err)
		}
		far.Close()
		near.Free()
		far.Free()
		a.Close()
		b.Close()
	}
	if after := using(t); after != before {
		t.Errorf("there are %+v, and were %+v", after, before)
	}
}

func nextOf(p *Place) (*Session, error) {
	_, s, err := p.Next(time.Second)
	return s, err
}

// A waiting goroutine can be stopped.
func TestPlaceCancel(t *testing.T) {
	p := newPlace(t, "shm:"+filepath.Join(t.TempDir(), "place"), 1)
	done := make(chan error)
	go func() {
		_, _, err := p.Next(time.Hour)
		done <- err
	}()
	p.Cancel()
	if err := <-done; err != ErrTimeout {
		t.Errorf("a wait that was cancelled ends with %v", err)
	}
}
