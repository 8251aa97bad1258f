// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/sys/numa"
	wire "verbena/internal/wire/ntb"
)

// A Place is a shared-memory hub: a directory through which the processes of two nodes find each
// other. Each node may have any number of processes. Each pair of them may have a link, and each
// process one to itself.
//
//	members    a byte for each process, locked while it lives, and its description
//	services   a range for each service id with a listener, which locks it
//	SIDE-SLOT  the socket by which a process is found
//
// Locks end with their process, however it ends. All of it is of one user, which
// is checked.
//
// Next is for one thread; the other methods may be called by any.
type Place struct {
	// immutable after Join
	config   PlaceConfig
	self     Member
	members  fd
	services fd
	listener fd
	wake     fd // readable: Next is to look at wants, or to return
	memory   *backing
	patience time.Duration // with a member that has to say something

	mu     sync.Mutex
	wants  []Member        // guarded by mu: links to be opened
	claims map[uint64]bool // guarded by mu: ours, by the place of their locks
	ended  bool            // guarded by mu

	// of the thread that calls Next
	dials  map[Member]*dial
	guests []guest
}

// Join makes this process a member of a hub.
//
// Errors: ErrInUse if another process has the slot of that side; ErrConfig;
// numa.ErrNode; the system's.
func Join(c PlaceConfig) (*Place, error) {
	p := &Place{config: c, members: none, services: none, listener: none, wake: none,
		patience: meetPatience, claims: map[uint64]bool{}, dials: map[Member]*dial{}}
	if err := p.join(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Place) join() error {
	c := &p.config
	if c.Endpoint.Kind != Shm || c.Slot < 0 || c.Slot >= Slots {
		return fmt.Errorf("%w: slot %d of %v", ErrConfig, c.Slot, c.Endpoint)
	}
	if err := checkBytes(c.SessionBytes); err != nil {
		return err
	}
	if err := checkBytes(c.MemoryBytes); err != nil {
		return err
	}
	if c.Endpoint.OnNode {
		if err := numa.Check(c.Endpoint.Node); err != nil {
			return err
		}
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	p.wake = hold(event)
	if err := p.openFiles(); err != nil {
		return err
	}
	if p.memory, err = newBacking(c.MemoryBytes, true); err != nil {
		return err
	}
	if c.Endpoint.OnNode {
		if err := numa.Place(p.memory.b, c.Endpoint.Node); err != nil {
			return err
		}
	}
	return p.take()
}

func (p *Place) openFiles() error {
	dir := p.config.Endpoint.Path
	if err := unix.Mkdir(dir, 0o700); err != nil && err != unix.EEXIST {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	if err := checkDir(dir); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		f    *fd
	}{{"members", &p.members}, {"services", &p.services}} {
		n, err := openPlaceFile(dir, f.name)
		if err != nil {
			return err
		}
		*f.f = n
	}
	return nil
}

// checkDir verifies that a path is a directory of ours alone, not a link to one.
func checkDir(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%w: %s is not a directory: remove it, or name another path",
			ErrConfig, path)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to another user: name another path", ErrConfig, path)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%w: %s may be written by others: chmod 700 it", ErrConfig, path)
	}
	return nil
}

func openPlaceFile(dir, name string) (fd, error) {
	path := filepath.Join(dir, name)
	n, err := unix.Open(path,
		unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return none, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(n, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG ||
		int(st.Uid) != os.Geteuid() {
		unix.Close(n)
		return none, fmt.Errorf("%w: %s is not a file of ours: remove it", ErrConfig, path)
	}
	return hold(n), nil
}

// Places in the file of members.
const (
	doorByte    = 2 * Slots // held by a process that joins
	recordsAt   = 4096
	recordBytes = 256
)

// take takes our slot: the given side, or the first that nobody has. Among processes without a
// given side, all but the first are of side 1 while that one is there.
func (p *Place) take() error {
	door := unix.Flock_t{Type: unix.F_WRLCK, Start: doorByte, Len: 1}
	for {
		err := unix.FcntlFlock(uintptr(p.members), unix.F_OFD_SETLKW, &door)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return os.NewSyscallError("fcntl", err)
		}
	}
	defer func() {
		door.Type = unix.F_UNLCK
		_ = unix.FcntlFlock(uintptr(p.members), unix.F_OFD_SETLK, &door) // it is ours
	}()
	e := &p.config.Endpoint
	p.self = Member{Slot: p.config.Slot}
	switch {
	case !e.Meet && !e.Serve:
		p.self.Side = 1
	case e.Meet && taken(p.members, 0, Slots):
		p.self.Side = 1
	}
	number := p.self.number()
	if taken(p.members, number, 1) {
		return fmt.Errorf("%w: process %d of side %d of %s is there (two processes have one "+
			"number if they do not meet in one XDG_RUNTIME_DIR, or network namespace)",
			ErrInUse, p.config.Slot, p.self.Side, e.Path)
	}
	if err := p.Announce(nil); err != nil { // instead of a former member's
		return err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(number), Len: 1}
	if err := unix.FcntlFlock(uintptr(p.members), unix.F_OFD_SETLK, &lock); err != nil {
		// nobody else takes one: the door is ours
		return os.NewSyscallError("fcntl", err)
	}
	return p.listen()
}

// listen makes the socket by which we are found. A socket there is left over: the slot is ours.
func (p *Place) listen() error {
	path := p.path(p.self)
	if len(path) >= len(unix.RawSockaddrUnix{}.Path) {
		return fmt.Errorf("%w: %s is longer than a socket's path may be", ErrConfig, path)
	}
	if err := unix.Unlink(path); err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "unlink", Path: path, Err: err}
	}
	f, err := socket(unix.AF_UNIX, unix.SOCK_SEQPACKET)
	if err != nil {
		return err
	}
	p.listener = f
	if err := unix.Bind(int(f), &unix.SockaddrUnix{Name: path}); err != nil {
		return &fs.PathError{Op: "bind", Path: path, Err: err}
	}
	return os.NewSyscallError("listen", unix.Listen(int(f), 2*Slots))
}

func (p *Place) path(m Member) string { return filepath.Join(p.config.Endpoint.Path, m.String()) }

// taken reports whether somebody else has any of n slots.
func taken(members fd, from, n int) bool {
	_, found := holder(members, int64(from), int64(n))
	return found
}

// holder returns the first range of n bytes of a file that somebody else has locked.
func holder(f fd, at, n int64) (lock unix.Flock_t, found bool) {
	lock = unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: n}
	err := unix.FcntlFlock(uintptr(f), unix.F_OFD_GETLK, &lock)
	return lock, err == nil && lock.Type != unix.F_UNLCK
}

// freeSide returns the side that a process would have that came now.
func freeSide(e Endpoint) int {
	switch {
	case !e.Meet && e.Serve:
		return 0
	case !e.Meet:
		return 1
	}
	n, err := unix.Open(filepath.Join(e.Path, "members"),
		unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0 // nobody was there yet
	}
	defer unix.Close(n)
	if taken(fd(n), 0, Slots) {
		return 1
	}
	return 0
}

// Self returns this process's member.
func (p *Place) Self() Member { return p.self }

// Memory returns the part of our window that is the application's.
func (p *Place) Memory() []byte { return p.memory.b }

// Announce says which addresses our port has, at most wire.MaxAddresses.
func (p *Place) Announce(list []netip.Addr) error {
	a := wire.Addresses{Count: uint32(min(len(list), wire.MaxAddresses))}
	for i, addr := range list[:a.Count] {
		a.GIDs[i] = ib.GIDFromAddr(addr.WithZone(""))
	}
	record := make([]byte, recordBytes)
	copy(record, a.Append(nil))
	_, err := unix.Pwrite(int(p.members), record, p.self.recordAt())
	return os.NewSyscallError("pwrite", err)
}

func (m Member) recordAt() int64 { return recordsAt + recordBytes*int64(m.number()) }

// Members returns the members that are there, this process among them.
func (p *Place) Members() (list []Presence) {
	for at := 0; at < 2*Slots; at++ {
		if at != p.self.number() {
			lock, found := holder(p.members, int64(at), int64(2*Slots-at))
			next := 2 * Slots
			if found {
				next = int(lock.Start)
			}
			if self := p.self.number(); at < self && self < next {
				next = self
			}
			if at = next; at == 2*Slots {
				break
			}
		}
		m := memberOf(at)
		list = append(list, Presence{m, p.addrs(m)})
	}
	return list
}

func (p *Place) addrs(m Member) (list []netip.Addr) {
	record := make([]byte, recordBytes)
	if n, err := unix.Pread(int(p.members), record, m.recordAt()); err != nil || n < recordBytes {
		return nil
	}
	a, _, ok := wire.ParseAddresses(record)
	if !ok {
		return nil
	}
	for _, g := range a.GIDs[:a.Count] {
		if addr := g.Addr(); !addr.IsUnspecified() && !addr.IsMulticast() {
			list = append(list, addr)
		}
	}
	return list
}

// Present reports whether a member is there.
func (p *Place) Present(m Member) bool {
	return m == p.self || m.Side>>1 == 0 && m.Slot >= 0 && m.Slot < Slots &&
		taken(p.members, m.number(), 1)
}

// Bits of the place of a lock in the file of services: whose it is, its length
// tells.
const (
	claimSpace  = 11 // a slot fits, and a gap
	serviceBits = 50
)

func serviceAt(side int, id uint64) uint64 {
	id ^= id >> serviceBits << 32
	return (uint64(side)<<serviceBits | id&(1<<serviceBits-1)) << claimSpace
}

// Claim takes a service id for this process, of all of its side.
//
// Errors: ErrInUse if another has it, or this one; the system's.
func (p *Place) Claim(id uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := serviceAt(p.self.Side, id)
	if p.claims[at] {
		return fmt.Errorf("%w: service %#x", ErrInUse, id)
	}
	err := p.lockService(unix.F_WRLCK, at)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: service %#x", ErrInUse, id)
	}
	if err == nil {
		p.claims[at] = true
	}
	return os.NewSyscallError("fcntl", err)
}

// Unclaim ends Claim.
func (p *Place) Unclaim(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := serviceAt(p.self.Side, id)
	if p.claims[at] {
		delete(p.claims, at)
		_ = p.lockService(unix.F_UNLCK, at) // it is ours
	}
}

func (p *Place) lockService(typ int16, at uint64) error {
	lock := unix.Flock_t{Type: typ, Start: int64(at), Len: int64(p.self.Slot) + 1}
	return unix.FcntlFlock(uintptr(p.services), unix.F_OFD_SETLK, &lock)
}

// Owner returns the member of a side that has a service id.
func (p *Place) Owner(side int, id uint64) (Member, bool) {
	at := serviceAt(side, id)
	p.mu.Lock()
	ours := side == p.self.Side && p.claims[at]
	p.mu.Unlock()
	if ours {
		return p.self, true
	}
	lock, found := holder(p.services, int64(at), 1)
	if !found || lock.Start != int64(at) || lock.Len < 1 || lock.Len > Slots {
		return Member{}, false
	}
	return Member{side, int(lock.Len) - 1}, true
}

// Want has Next open a link to a member.
func (p *Place) Want(m Member) {
	p.mu.Lock()
	p.wants = append(p.wants, m)
	p.mu.Unlock()
	p.ring()
}

// Settled withdraws a request for a link to a member: there is one.
func (p *Place) Settled(m Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wants = slices.DeleteFunc(p.wants, func(w Member) bool { return w == m })
}

// Cancel ends Next, and all calls of it to come.
func (p *Place) Cancel() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.ring()
}

func (p *Place) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(int(p.wake), one[:]) // EAGAIN: it is rung already
}

// Close leaves the place. Links must have been closed; nobody may use Memory any
// more.
func (p *Place) Close() error {
	for m := range p.dials {
		p.drop(m)
	}
	for i := range p.guests {
		p.guests[i].socket.close()
	}
	p.guests = nil
	if p.listener != none {
		// While the slot is ours: the next one's is not to go.
		_ = unix.Unlink(p.path(p.self)) // of one that somebody has removed it is no loss
		p.listener.close()
	}
	if p.memory != nil {
		p.memory.close()
	}
	p.services.close()
	p.members.close()
	p.wake.close()
	return nil
}
