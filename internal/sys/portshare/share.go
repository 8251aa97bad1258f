// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"verbena/ib"
	"verbena/internal/sys/udp"
	"verbena/internal/sys/xsk"
)

// Port is the UDP destination port of RoCEv2. Spec: IBTA A17.3.1.
const Port = 4791

// Slots bounds the processes that share the port of an address: each owns a slot of the queue pair
// numbers.
const Slots = 1024

// SlotShift is the position of the slot in a queue pair number: its top bits.
const SlotShift = 14

// SlotOf returns the slot that a queue pair number is of.
func SlotOf(q ib.QPN) int { return int(q >> SlotShift & (Slots - 1)) }

const (
	// Parts of a slot may have a socket each (Member.Part): threads that poll different completion
	// queues then read different sockets.
	Parts = 1 << partBits

	partBits  = 2
	partShift = SlotShift - partBits
)

// Share identifies a part of a slot: the kernel steers all datagrams for it to one socket.
type Share int

// ShareOf returns the share that a queue pair number is of.
func ShareOf(q ib.QPN) Share { return Share(q >> partShift & (Slots*Parts - 1)) }

func shareOf(slot, part int) Share { return Share(slot*Parts + part) }

// slot returns the slot that a share is a part of.
func (s Share) slot() int { return int(s) / Parts }

// MADRules have a keeper's functions for management datagrams (UDP payloads for QP1). They are
// called one at a time, and must neither block nor keep the bytes.
type MADRules struct {
	// Route returns the target of a management datagram that came to a local address.
	Route func(datagram []byte, dst netip.Addr) Route
	// Overlap tells whether two keys cannot be listened for both; nil is only if
	// they are equal.
	Overlap func(a, b string) bool
	// Refuse appends the datagram that answers one for nobody: nobody listens for it, or
	// owns its slot. It is sent to where the other came from; nil is silence.
	Refuse func(d MAD, answer []byte) []byte
	// MADBytes is the length of a management datagram, and MADWords its fixed words: the kernel
	// drops others. With 0 bytes they may have any form.
	MADBytes int
	MADWords []Word
}

// Options of a member.
type Options struct {
	// Socket opens the sockets of a process that shares with no other.
	Socket udp.Options
	// MADRules are used by this process where it is the keeper: where it finds no command to
	// execute.
	MADRules MADRules
	// OnMAD takes the management datagrams for this member. It must neither block nor
	// keep Payload. Calls come one at a time.
	OnMAD func(MAD)
	// OnKeeper, if not nil, is called when the keeper has gone and there is another: management
	// datagrams that the one before had read may be lost. It must not block.
	OnKeeper func()
	// Attach is used by this process where it is the keeper; nil: no process has frames.
	Attach Attach
	// Solo does without sharing: this process alone has the port. Portable
	// sockets imply it.
	Solo bool
}

// Route is the target of a management datagram.
type Route struct {
	To   Target
	Keys Keys // ToKey: the process that listens for the first of these with a listener
	Slot int  // ToSlot: the owner
}

// Keys are a few keys, made without allocating: any stranger may have a datagram
// looked up.
type Keys struct {
	n     int
	ends  [maxKeys]int
	bytes [maxKeys * MaxKeyBytes]byte
}

const (
	maxKeys = 3
	// MaxKeyBytes bounds a key of Keys.
	MaxKeyBytes = 64
)

// Add adds a key. There are at most three, of MaxKeyBytes each.
func (k *Keys) Add(key []byte) {
	at := k.start(k.n)
	k.ends[k.n] = at + copy(k.bytes[at:at+MaxKeyBytes], key)
	k.n++
}

func (k *Keys) start(i int) int {
	if i == 0 {
		return 0
	}
	return k.ends[i-1]
}

// Len returns how many there are.
func (k *Keys) Len() int { return k.n }

// At returns one of them, which stays k's.
func (k *Keys) At(i int) []byte { return k.bytes[k.start(i):k.ends[i]] }

// Word is 4 bytes of a datagram, which are Value where Mask has ones.
type Word struct {
	At          int
	Mask, Value uint32
}

// Target is the kind of a Route.
type Target uint8

// Targets.
const (
	ToNobody Target = iota // no process can want it
	ToKey                  // a process that listens
	ToSlot                 // one member
	ToAll                  // every member
)

// overlap applies Overlap.
func (d *MADRules) overlap(a, b string) bool {
	return a == b || d.Overlap != nil && d.Overlap(a, b)
}

// MAD is a management datagram as it arrived, possibly in another process.
type MAD struct {
	Src     netip.AddrPort
	Dst     netip.Addr
	TOS     uint8
	Payload []byte // the UDP payload, from the BTH on
}

// MaxWillBytes bounds the datagram of a will: a MAD with its RoCEv2 headers has 280.
const MaxWillBytes = 400

// Will is a datagram to be sent for a member that died. It goes out from
// Local, UDP source port 4791, with identification 0: its ICRC must say so.
type Will struct {
	Local    netip.Addr
	Dst      netip.AddrPort
	Datagram []byte
}

// Member is a process's place among those that share the port. Its methods may
// be called concurrently. They block for as long as the keeper takes to answer,
// or a new one to be found if it dies.
type Member interface {
	// Slot returns the slot this process owns, 0 if it has the port alone.
	Slot() int
	// QPNRange returns the first and the last queue pair number that this
	// process may allot.
	QPNRange() (lo, hi ib.QPN)
	// Name identifies this process among all in its directory, in any container; it is empty where
	// nothing is shared. The keeper removes the file with this name and rundir.StatsSuffix once the
	// process is dead.
	Name() string
	// Meeting returns the path of a Unix socket where the owner of a slot may be found for other
	// things than the port; it is empty where nothing is shared.
	Meeting(slot int) string
	// Socket returns the socket for datagrams to addr for this process's queue pairs. It stays the
	// member's: do not close it. A datagram for QP1 read from it is to be treated as OnMAD's. The
	// error is a *PortError if another process, which does not share, has the port.
	Socket(addr netip.Addr) (*udp.Socket, error)
	// Part returns a socket for datagrams to those queue pairs of this process whose numbers are of
	// a part, less than Parts, of its slot. Socket was called for the address. The socket stays the
	// member's. The error is errors.ErrUnsupported where there is only the socket of Socket.
	Part(addr netip.Addr, part int) (*udp.Socket, error)
	// SteerPart has the datagrams go to the socket of Part from now on. Those that came before are
	// in that of Socket.
	SteerPart(addr netip.Addr, part int) error
	// Receive has management datagrams to addr arrive, without a socket of this process.
	// The error is errors.ErrUnsupported where only the process's own socket gets them,
	// else as Socket's.
	Receive(addr netip.Addr) error
	// Send sends a management datagram from an address of Receive. It does not block: the
	// error is EAGAIN if there is no room for it now.
	Send(src netip.Addr, dst netip.AddrPort, datagram []byte) error
	// Watch makes an epoll set readable when there is something for Read. The kernel wakes a thread
	// that waits for the set, and no other: the set of the last Watch comes first. Where no thread
	// waits for a set the member reads by itself. The set stays open until Unwatch. The error is
	// errors.ErrUnsupported where management datagrams come otherwise.
	Watch(epoll int) error
	// Unwatch ends Watch.
	Unwatch(epoll int)
	// Read calls OnMAD for management datagrams that have come. It does not block. It reports
	// whether there may be more: the sets of other threads need not become readable for those.
	Read() (more bool)
	// Pass makes the kernel drop datagrams to this process's sockets for other queue pair numbers
	// than these, from now on and until the next Pass. Without it everything passes.
	Pass(*Numbers)
	// Frames gives this process its part of the frames of an interface: datagrams for its queue
	// pairs that come by it are read from there. Sockets get those that the kernel passes all the
	// same. The error is a *FramesError.
	Frames(Interface) (*xsk.Socket, error)
	// SteerPort has the frames of the interface with an index bring the datagrams to a UDP socket
	// of this process. Its port is not Port. UnsteerPort ends that, and is to be called before the
	// socket is closed.
	SteerPort(iface int, s *udp.Socket) error
	UnsteerPort(iface int, a netip.AddrPort)
	// Dropped counts the datagrams to this process's sockets that the kernel dropped.
	Dropped() uint64
	// KeeperDropped counts the datagrams that the kernel dropped at the keeper's sockets, and those
	// for which the keeper had no room. The former are also datagrams to the queue pairs of no
	// process. It is the count of all members together, and does not fall when a keeper follows
	// another. Where the keeper does not answer at once the count is its last answer.
	KeeperDropped() uint64
	// Listen makes management datagrams that Route gives this key arrive here.
	// The error is syscall.EADDRINUSE if another member has the key or one that
	// overlaps, or this one.
	Listen(key string) error
	// Unlisten ends Listen.
	Unlisten(key string)
	// SetWill leaves a datagram to be sent if this process dies without Close or
	// ClearWill. A will with the same id is replaced.
	SetWill(id uint64, w Will) error
	// ClearWill withdraws a will; an unknown id is ignored.
	ClearWill(id uint64)
	// Close leaves the group: wills are withdrawn and sockets closed. Nobody may
	// be using them any more. No OnMAD is running when it returns.
	Close() error
}

// Join makes this process a member of those that share the port. They share dir, a directory of
// this user's alone, which is made if need be; if dir is empty it is rundir.Dir's. If the system or
// the other members refuse, the error is a *JoinError.
func Join(dir string, o Options) (Member, error) {
	if o.Solo || o.Socket.Portable || !canShare {
		return newSolo(o), nil
	}
	if o.MADRules.Route == nil || o.OnMAD == nil {
		return nil, errors.New("portshare: Options.MADRules.Route and Options.OnMAD are needed")
	}
	m, err := join(dir, o)
	if err != nil {
		return nil, &JoinError{err}
	}
	return m, nil
}

// JoinError says why this process cannot be a member.
type JoinError struct{ Err error }

func (e *JoinError) Error() string { return e.Err.Error() }

func (e *JoinError) Unwrap() error { return e.Err }

// PortError says that the port of an address is not to be had.
type PortError struct {
	Addr netip.Addr
	Err  error
}

func (e *PortError) Error() string {
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("UDP port %d on %v is taken by another user, another program, the "+
			"kernel's rdma_rxe or by processes of this user that have another XDG_RUNTIME_DIR "+
			"or an older Verbena: "+
			"stop it (`ss -uanp sport = %d` and `rdma link` show it) or use another address", Port,
			e.Addr, Port)
	}
	return fmt.Sprintf("UDP port %d on %v: %v", Port, e.Addr, e.Err)
}

func (e *PortError) Unwrap() error { return e.Err }

// keyError says that somebody listens for a key already.
func keyError(key string) error {
	return fmt.Errorf("portshare: listen for %q: %w", key, syscall.EADDRINUSE)
}
