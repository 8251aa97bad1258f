// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"syscall"
	"time"

	"verbena/internal/sys/xsk"
)

// framePool holds, for the keeper, the pool of an interface's frames and the program that steers
// them. It stays while a process has a seat.
type framePool struct {
	iface    *net.Interface
	pool     *xsk.Pool
	steering Steering
	queues   int
	places   map[int]int // by slot
	ports    map[netip.AddrPort]seatPort
}

// errNoPlace says that as many processes as a pool has places use it.
var errNoPlace = fmt.Errorf("%d processes use its frames already", xsk.Places)

// errOtherQueues says that processes do not agree on the queues.
var errOtherQueues = errors.New("another process has chosen another number of queues")

// errSeated says that a process asks twice for frames of one interface. It reads its first seat's
// frames, so they cannot be taken back.
var errSeated = errors.New("this process uses its frames already")

// releasePatience bounds the wait for the queues of a pool that has just ended: the kernel frees
// them some time after the last socket is closed.
const releasePatience = time.Second

// framesOf gives the owner of a slot its seat at an interface, and makes the pool if need be.
func (k *keeper) framesOf(slot int, i Interface) (*xsk.Seat, error) {
	start := time.Now()
	for p := (pause{}); ; p.wait() {
		s, err := k.makeSeat(slot, i)
		if !errors.Is(err, syscall.EBUSY) || time.Since(start) > releasePatience {
			return s, err
		}
	}
}

func (k *keeper) makeSeat(slot int, i Interface) (*xsk.Seat, error) {
	k.create <- struct{}{}
	defer func() { <-k.create }()
	k.mu.Lock()
	over := k.over
	k.mu.Unlock()
	if over {
		return nil, errOver
	}
	if k.attach == nil {
		return nil, errors.New("a program that keeps the port itself cannot do that: install " +
			"verbena, or name it by VERBENA_KEEPER")
	}
	is, err := net.InterfaceByName(i.Name)
	if err != nil {
		return nil, errors.New("there is no such interface")
	}
	p := k.frames[is.Index]
	if p == nil {
		if p, err = k.newFramePool(is, i.Queues); err != nil {
			return nil, err
		}
		k.frames[is.Index] = p
	}
	if p.queues != i.Queues {
		return nil, errOtherQueues
	}
	// A pool that no process has joined ends with this request.
	defer func() {
		if len(p.places) == 0 {
			p.close()
			delete(k.frames, is.Index)
		}
	}()
	if _, seated := p.places[slot]; seated {
		return nil, errSeated
	}
	seat, ok, err := p.pool.Seat()
	switch {
	case err != nil:
		return nil, explained(err)
	case !ok:
		return nil, errNoPlace
	}
	p.places[slot] = seat.Place
	if err := p.steering.Give(slot, seat.Sockets); err != nil {
		k.leaveSeat(p, slot)
		return nil, err
	}
	return seat, nil
}

// newFramePool makes the pool of an interface. The caller holds k.create.
func (k *keeper) newFramePool(is *net.Interface, queues int) (p *framePool, err error) {
	p = &framePool{iface: is, queues: queues, places: map[int]int{},
		ports: map[netip.AddrPort]seatPort{}}
	if p.pool, err = xsk.NewPool(is.Index, queues, is.MTU); err != nil {
		return nil, explained(err)
	}
	if p.steering, err = k.attach(is, queues); err != nil {
		p.pool.Close()
		return nil, explained(err)
	}
	for addr := range k.groups {
		p.steer(addr)
	}
	return p, nil
}

// steer has datagrams to an address go to the processes' sockets if the interface has the address.
// Others stay with the kernel: a stranger on the link must not reach 127.0.0.1 by it, nor the
// addresses of other interfaces. addr has no zone.
func (p *framePool) steer(addr netip.Addr) {
	if addr.IsLoopback() || !p.has(addr) {
		p.steering.Remove(addr)
		return
	}
	_ = p.steering.Add(addr) // where the table is full the kernel's sockets have them
}

// has reports whether the interface has an address.
func (p *framePool) has(addr netip.Addr) bool {
	all, err := p.iface.Addrs()
	if err != nil {
		return false
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == addr.Unmap() {
				return true
			}
		}
	}
	return false
}

// explained adds to an error what a user can do about it.
func explained(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: the process that keeps port %d needs CAP_NET_RAW, CAP_NET_ADMIN "+
			"and CAP_BPF: start programs as root", err, Port)
	case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("%w: another program, or processes whose keeper was killed, use the "+
			"interface's frames (`ip link show` and `ss --xdp -p` show them)", err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("%w: the interface has fewer queues (`ethtool -l`), or the kernel is "+
			"older than Linux 6.6", err)
	case errors.Is(err, syscall.ENOBUFS):
		return fmt.Errorf("%w: too little memory may be locked (ulimit -l)", err)
	}
	return err
}

func (p *framePool) close() {
	for a := range p.ports {
		p.removePort(a)
	}
	p.steering.Close()
	p.pool.Close()
}

// leaveSeat takes back the seat of a slot whose owner has ended. The caller holds k.create.
func (k *keeper) leaveSeat(p *framePool, slot int) {
	place, ok := p.places[slot]
	if !ok {
		return
	}
	for a, s := range p.ports {
		if s.slot == slot {
			p.removePort(a)
		}
	}
	p.steering.Take(slot)
	p.pool.Reclaim(place, func(other int) bool {
		for s, at := range p.places {
			if at == other {
				return s == slot || !k.lock.owned(s)
			}
		}
		return true
	})
	delete(p.places, slot)
}

// leaveSeats takes back all seats of a slot whose owner has ended, and ends the pools that nobody
// uses any more: a program costs the kernel's sockets, too. The caller holds k.create.
func (k *keeper) leaveSeats(slot int) {
	for index, p := range k.frames {
		k.leaveSeat(p, slot)
		if len(p.places) == 0 {
			p.close()
			delete(k.frames, index)
		}
	}
}

// Frames asks the keeper for this process's seat at an interface.
func (m *member) Frames(i Interface) (*xsk.Socket, error) {
	a, err := m.call(frame{Kind: kindFrames, Name: i.Name, Count: uint64(i.Queues)})
	switch {
	case err != nil:
	case a.Errno == syscall.ENOSYS:
		err = errors.New("the keeper of the port is of an older version: end its processes")
	case a.Err != "":
		err = &keeperError{a.Err, a.Errno}
	case a.cut || len(a.fds) != i.Queues+1:
		closeAll(a.fds)
		err = errTooManyFiles
	default:
		s, failed := xsk.Open(a.Slot, a.fds[0], a.fds[1:], Port)
		if failed == nil {
			return s, nil
		}
		err = failed
	}
	return nil, &FramesError{i.Name, err}
}
