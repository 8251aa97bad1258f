// SPDX-License-Identifier: BSD-2-Clause

package xsk

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// Pool is the memory of an interface's frames, with the sockets that keep its common rings. One
// process has it, the owner. Its methods are for one goroutine at a time.
type Pool struct {
	layout  Layout
	memory  []byte
	memfd   int
	anchors []int // by queue: sockets that receive nothing
	fill    []*ring
	seats   [Places]*Seat
	joins   bool  // a packet may need several frames
	granted []int // by queue: places whose frames to receive the queue has
}

// Seat is a process's part of a pool. Its descriptors are given to the process. The owner keeps
// its own: it mends what the process leaves.
type Seat struct {
	Place   int
	Memory  int   // descriptor of the pool's memory
	Sockets []int // descriptors, by queue

	rx []*ring // by queue
}

// NewPool makes the pool of the first queues of an interface, with frames for its MTU.
//
// Errors: no CAP_NET_RAW, a queue that another program has, too little memory that may be pinned
// (RLIMIT_MEMLOCK), a kernel without AF_XDP.
func NewPool(index, queues, mtu int) (p *Pool, err error) {
	l, err := newLayout(index, queues, mtu)
	if err != nil {
		return nil, err
	}
	p = &Pool{layout: l, memfd: -1}
	defer func() {
		if err != nil {
			p.Close()
			p, err = nil, fmt.Errorf("xsk: %w", err)
		}
	}()
	p.joins = l.FrameBytes-headroom < mtu+ethernetBytes
	if p.memfd, err = unix.MemfdCreate("verbena-frames",
		unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return p, os.NewSyscallError("memfd_create", err)
	}
	fdtrack.Add(p.memfd)
	if err = unix.Ftruncate(p.memfd, int64(l.bytes())); err != nil {
		return p, os.NewSyscallError("ftruncate", err)
	}
	if _, err = unix.FcntlInt(uintptr(p.memfd), unix.F_ADD_SEALS, seals); err != nil {
		return p, os.NewSyscallError("fcntl F_ADD_SEALS", err)
	}
	if p.memory, err = unix.Mmap(p.memfd, 0, l.bytes(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		return p, os.NewSyscallError("mmap", err)
	}
	g := ledgerOf(p.memory)
	g.magic, g.iface, g.queues = ledgerMagic, uint32(l.Interface), uint32(l.Queues)
	g.frameBytes = uint32(l.FrameBytes)
	for i := range Places {
		g.reset(i)
	}
	for q := range queues {
		if err = p.anchor(q); err != nil {
			return p, fmt.Errorf("queue %d of interface %d: %w", q, index, err)
		}
	}
	return p, nil
}

// errTooOld says that the kernel cannot join frames.
var errTooOld = errors.New("packets of its MTU need several frames each, and so Linux 6.6: " +
	"lower the MTU to 3826")

// seals keep a process from making the memory shorter: the others would get SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// anchor binds the socket that keeps the common rings of a queue, with the frames of one place.
func (p *Pool) anchor(queue int) error {
	fd, err := newSocket()
	if err != nil {
		return err
	}
	p.anchors = append(p.anchors, fd)
	if queue == 0 {
		if err := register(fd, p.memory[p.layout.framesAt():], p.layout.FrameBytes); err != nil {
			return err
		}
	}
	for _, o := range []struct {
		name   string
		option int
		n      int
	}{
		{"XDP_UMEM_FILL_RING", unix.XDP_UMEM_FILL_RING, p.layout.rxTotal()},
		{"XDP_UMEM_COMPLETION_RING", unix.XDP_UMEM_COMPLETION_RING, Places * txFrames},
		{"XDP_TX_RING", unix.XDP_TX_RING, 1}, // a socket has a ring of its own, or is not bound
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_XDP, o.option, o.n); err != nil {
			return os.NewSyscallError("setsockopt "+o.name, err)
		}
	}
	off, err := offsets(fd)
	if err != nil {
		return err
	}
	fill, err := mapRing(fd, unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr, p.layout.rxTotal(), 8)
	if err != nil {
		return err
	}
	p.fill = append(p.fill, fill)
	p.push(queue, 0)
	p.granted = append(p.granted, 1)
	sa := unix.SockaddrXDP{Ifindex: uint32(p.layout.Interface), QueueID: uint32(queue)}
	if queue == 0 {
		return p.choose(fd, &sa)
	}
	sa.Flags, sa.SharedUmemFD = unix.XDP_SHARED_UMEM, uint32(p.anchors[0])
	return bindFree(fd, &sa, time.Now().Add(releaseTime))
}

// choose binds the first socket in the best mode that the interface and the kernel have. The other
// sockets follow it. Most drivers with zero-copy mode refuse packets of several frames there, so
// that is left out where each packet fits one. A kernel before Linux 6.6 knows no such packets.
func (p *Pool) choose(fd int, sa *unix.SockaddrXDP) error {
	until := time.Now().Add(releaseTime)
	in := func(mode uint16) error {
		sa.Flags = unix.XDP_USE_NEED_WAKEUP | mode
		return bindFree(fd, sa, until)
	}
	if in(unix.XDP_ZEROCOPY|unix.XDP_USE_SG) == nil || !p.joins && in(unix.XDP_ZEROCOPY) == nil {
		return nil
	}
	err := in(unix.XDP_COPY | unix.XDP_USE_SG)
	if !errors.Is(err, unix.EINVAL) || in(unix.XDP_COPY) != nil {
		return err
	}
	if p.joins {
		return errTooOld
	}
	return nil
}

// releaseTime bounds the wait for a queue that is busy. The kernel lets go of one a moment after
// the last pool's sockets were closed, and later on a loaded machine.
const releaseTime = time.Second

// bindFree is bind, which waits until the queue is free.
func bindFree(fd int, sa *unix.SockaddrXDP, until time.Time) error {
	for {
		err := bind(fd, sa)
		if !errors.Is(err, unix.EBUSY) || until.Before(time.Now()) {
			return err
		}
		time.Sleep(releaseTime / 200)
	}
}

// push gives a queue the frames of a place.
func (p *Pool) push(queue, place int) {
	fill := p.fill[queue]
	at := atomic.LoadUint32(fill.producer)
	for i := range uint32(rxFrames) {
		*fill.address(at + i) = p.layout.rxAddr(queue, place*rxFrames+int(i))
	}
	atomic.StoreUint32(fill.producer, at+rxFrames)
}

// grant gives the queues as many frames as the places that are taken may keep. Frames circulate,
// each in its turn: the fewer there are, the sooner the processor's cache has them. They stay when
// a process ends. A queue whose fill lock a stopped process has gets its frames with a later seat.
func (p *Pool) grant(s *Seat) {
	taken := 1 // that of s
	for _, other := range p.seats {
		if other != nil {
			taken++
		}
	}
	unknown := func(int) bool { return false }
	for q := range p.granted {
		locks := &ledgerOf(p.memory).queue[q]
		if p.granted[q] >= taken || !p.takeFill(locks, s.Place, q, unknown) {
			continue
		}
		for ; p.granted[q] < taken; p.granted[q]++ {
			p.push(q, p.granted[q])
		}
		locks.fill.release()
		p.fill[q].wake(s.Sockets[q])
	}
}

func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket AF_XDP", err)
	}
	fdtrack.Add(fd)
	return fd, nil
}

// bind is a variable for the test of older kernels.
var bind = func(fd int, sa *unix.SockaddrXDP) error {
	return os.NewSyscallError("bind AF_XDP", unix.Bind(fd, sa))
}

// Seat makes the sockets of a process and takes a place for them. ok is false if no place is free.
func (p *Pool) Seat() (s *Seat, ok bool, err error) {
	place := 0
	for place < Places && p.seats[place] != nil {
		place++
	}
	if place == Places {
		return nil, false, nil
	}
	s = &Seat{Place: place, Memory: p.memfd}
	for q := range p.layout.Queues {
		if err := p.seatAt(s, q); err != nil {
			s.close()
			return nil, true, fmt.Errorf("xsk: queue %d: %w", q, err)
		}
	}
	p.grant(s)
	p.seats[place] = s
	return s, true, nil
}

func (p *Pool) seatAt(s *Seat, queue int) error {
	fd, err := newSocket()
	if err != nil {
		return err
	}
	s.Sockets = append(s.Sockets, fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_RX_RING, rxFrames); err != nil {
		return os.NewSyscallError("setsockopt XDP_RX_RING", err)
	}
	if queue == p.layout.txQueue(s.Place) {
		if err := unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_TX_RING, txFrames); err != nil {
			return os.NewSyscallError("setsockopt XDP_TX_RING", err)
		}
	}
	off, err := offsets(fd)
	if err != nil {
		return err
	}
	rx, err := mapRing(fd, unix.XDP_PGOFF_RX_RING, off.Rx, rxFrames, descriptorBytes)
	if err != nil {
		return err
	}
	s.rx = append(s.rx, rx)
	return bind(fd, &unix.SockaddrXDP{Flags: unix.XDP_SHARED_UMEM,
		Ifindex: uint32(p.layout.Interface), QueueID: uint32(queue),
		SharedUmemFD: uint32(p.anchors[queue])})
}

func (s *Seat) close() {
	for _, r := range s.rx {
		r.close()
	}
	for _, fd := range s.Sockets {
		fdtrack.Close(fd)
	}
	s.rx, s.Sockets = nil, nil
}

// Reclaim takes back the place of a process that has ended, with all frames that it had. The XDP
// program must send nothing to its sockets any more: Reclaim waits for packets that the kernel is
// about to write there. ended tells of other places whether their process has ended as well.
func (p *Pool) Reclaim(place int, ended func(place int) bool) {
	s := p.seats[place]
	if s == nil {
		return
	}
	graceful()
	g := ledgerOf(p.memory)
	for q, rx := range s.rx {
		locks := &g.queue[q]
		p.mend(locks, place, q)
		if locks.completion.holder.Load() == uint32(place)+1 {
			locks.completion.release()
		}
		if !p.takeFill(locks, place, q, ended) {
			continue // the frames are lost
		}
		from, to := atomic.LoadUint32(rx.consumer), atomic.LoadUint32(rx.producer)
		fill := p.fill[q]
		at := atomic.LoadUint32(fill.producer)
		for n := min(to-from, rxFrames); n > 0; n-- {
			*fill.address(at) = rx.packet(from).Addr &^ uint64(p.layout.FrameBytes-1)
			at, from = at+1, from+1
		}
		atomic.StoreUint32(fill.producer, at)
		locks.fill.release()
	}
	s.close()
	g.reset(place)
	p.seats[place] = nil
}

// reclaimTries bounds the wait for a process that was stopped while it had a lock.
const reclaimTries = 50

// takeFill takes the fill lock of a queue, also from processes that have ended.
func (p *Pool) takeFill(locks *queueLedger, place, queue int, ended func(int) bool) bool {
	for range reclaimTries {
		if locks.fill.try(place) {
			return true
		}
		other := int(locks.fill.holder.Load()) - 1
		if other >= 0 && other < Places && ended(other) {
			p.mend(locks, other, queue)
			continue
		}
		graceful() // some stores later it has done
	}
	return false
}

// mend releases the fill lock of a queue where a process that has ended had it. Frames that it had
// pushed are no longer in its receive ring then.
func (p *Pool) mend(locks *queueLedger, place, queue int) {
	l, s := &locks.fill, p.seats[place]
	if s == nil || l.holder.Load() != uint32(place)+1 {
		return
	}
	if n := l.count.Load(); n != 0 &&
		atomic.LoadUint32(p.fill[queue].producer) != l.produced.Load() {
		atomic.StoreUint32(s.rx[queue].consumer, l.consumed.Load()+n)
	}
	l.count.Store(0)
	l.release()
}

// graceful returns when the kernel has finished the packets that it was handling: it waits for a
// grace period of RCU. A kernel with nohz_full refuses to, and graceful waits for gracePause.
func graceful() {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		time.Sleep(gracePause)
	}
}

const (
	membarrierGlobal = 1 // MEMBARRIER_CMD_GLOBAL
	// gracePause is longer than the kernel handles packets without a pause.
	gracePause = 50 * time.Millisecond
)

// Close ends the pool. Sockets of processes go on to use its memory until they are closed.
func (p *Pool) Close() {
	for _, s := range p.seats {
		if s != nil {
			s.close()
		}
	}
	for _, r := range p.fill {
		r.close()
	}
	for _, fd := range p.anchors {
		fdtrack.Close(fd)
	}
	if p.memory != nil {
		unix.Munmap(p.memory)
	}
	if p.memfd >= 0 {
		fdtrack.Close(p.memfd)
	}
	*p = Pool{memfd: -1}
}
