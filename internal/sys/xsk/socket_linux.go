// SPDX-License-Identifier: BSD-2-Clause

package xsk

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/udp"
)

// Socket is a process's end of a pool: a Queue to read for each queue of the interface, and one
// transmit ring. Its methods may be called concurrently.
type Socket struct {
	// immutable after Open
	layout   Layout
	place    int
	memory   []byte
	frames   []byte
	ledger   *ledger
	queues   []*Queue
	out      *Queue // datagrams leave by its transmit ring
	port     uint16 // of datagrams that need no UDP checksum
	zeroCopy bool

	mu     sync.Mutex
	at     uint32 // guarded by mu: the transmit ring's producer
	broken bool   // guarded by mu: the interface has gone
	head   header // guarded by mu
	// guarded by mu: when reapLocked found the completion ring's lock taken; 0 where it took it
	lockedSince monotime.Time

	count counters
}

type counters struct {
	sent, received, bad, blocked, elsewhere atomic.Uint64
}

// Queue is the receive ring of one queue of the interface. It is a faultcap.Socket that sends
// nothing. One goroutine at a time reads it.
type Queue struct {
	// immutable after Open
	of     *Socket
	number int
	fd     int
	rx     *ring
	tx     *ring // nil unless datagrams leave by it
	fill   *ring
	done   *ring // the completion ring

	seen atomic.Uint32 // next, after each batch

	// of the goroutine that reads
	next     uint32 // the entry to read
	released uint32 // the rx ring's consumer: frames of the entries from here on are ours
}

// releaseAfter is the number of frames that are given back at once while more arrive.
const releaseAfter = 32

// Open opens a seat: it owns the descriptors from then on, also after an error. Datagrams to port
// have a check of their own: the UDP checksum of others is checked.
func Open(place int, memory int, sockets []int, port uint16) (s *Socket, err error) {
	for _, fd := range append([]int{memory}, sockets...) {
		fdtrack.Add(fd)
	}
	defer fdtrack.Close(memory)
	s = &Socket{place: place, port: port}
	defer func() {
		if err != nil {
			s.Close()
			s, err = nil, fmt.Errorf("xsk: %w", err)
		}
	}()
	for q, fd := range sockets {
		s.queues = append(s.queues, &Queue{of: s, number: q, fd: fd})
	}
	if err := s.mapMemory(memory); err != nil {
		return s, err
	}
	if len(sockets) != s.layout.Queues || place < 0 || place >= Places {
		return s, errors.New("the seat is not one of this pool")
	}
	for _, q := range s.queues {
		if err := q.open(); err != nil {
			return s, err
		}
	}
	s.out = s.queues[s.layout.txQueue(place)]
	s.at = atomic.LoadUint32(s.out.tx.producer)
	options, err := unix.GetsockoptInt(s.out.fd, unix.SOL_XDP, unix.XDP_OPTIONS)
	s.zeroCopy = err == nil && options&unix.XDP_OPTIONS_ZEROCOPY != 0
	return s, nil
}

func (s *Socket) mapMemory(fd int) error {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return fmt.Errorf("memory is not sealed (%#x, %v)", got, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if st.Size < int64(ledgerBytes) || st.Size > maxBytes {
		return fmt.Errorf("memory of %d bytes", st.Size)
	}
	b, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	s.memory, s.ledger = b, ledgerOf(b)
	s.layout = Layout{Interface: int(s.ledger.iface), Queues: int(s.ledger.queues),
		FrameBytes: int(s.ledger.frameBytes)}
	if s.ledger.magic != ledgerMagic || !s.layout.valid() || s.layout.bytes() != len(b) {
		return errors.New("memory is that of another version")
	}
	s.frames = b[s.layout.framesAt():]
	return nil
}

// maxBytes bounds the memory of a pool.
const maxBytes = 4 << 30

func (q *Queue) open() error {
	off, err := offsets(q.fd)
	if err != nil {
		return err
	}
	l := q.of.layout
	if q.rx, err = mapRing(q.fd, unix.XDP_PGOFF_RX_RING, off.Rx, rxFrames,
		descriptorBytes); err != nil {
		return err
	}
	if q.fill, err = mapRing(q.fd, unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr, l.rxTotal(),
		8); err != nil {
		return err
	}
	if q.done, err = mapRing(q.fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr, Places*txFrames,
		8); err != nil {
		return err
	}
	if q.number == l.txQueue(q.of.place) {
		if q.tx, err = mapRing(q.fd, unix.XDP_PGOFF_TX_RING, off.Tx, txFrames,
			descriptorBytes); err != nil {
			return err
		}
	}
	q.released = atomic.LoadUint32(q.rx.consumer)
	q.next = q.released
	q.seen.Store(q.next)
	return nil
}

// Queues returns the receive rings.
func (s *Socket) Queues() []*Queue { return s.queues }

// Interface returns the index of the interface.
func (s *Socket) Interface() int { return s.layout.Interface }

// Counters returns a snapshot of the counts.
func (s *Socket) Counters() Counters {
	c := Counters{Sent: s.count.sent.Load(), Received: s.count.received.Load(),
		Bad: s.count.bad.Load(), Blocked: s.count.blocked.Load(),
		Elsewhere: s.count.elsewhere.Load()}
	for _, q := range s.queues {
		c.KernelDropped += dropped(q.fd)
	}
	return c
}

// Close closes the sockets. No goroutine may read or write any more.
func (s *Socket) Close() error {
	for _, q := range s.queues {
		for _, r := range []*ring{q.rx, q.tx, q.fill, q.done} {
			r.close()
		}
		fdtrack.Close(q.fd)
	}
	if s.memory != nil {
		unix.Munmap(s.memory)
	}
	s.queues, s.memory, s.frames = nil, nil, nil
	return nil
}

// Waiting reports whether there is something to read.
func (q *Queue) Waiting() bool { return atomic.LoadUint32(q.rx.producer) != q.seen.Load() }

// ReadBatch reads datagrams into b, as udp.Socket does. They lie in the pool's memory until the
// next call.
func (q *Queue) ReadBatch(b *udp.RxBatch) (int, error) {
	b.Clear()
	to := atomic.LoadUint32(q.rx.producer)
	if to == q.next || q.next-q.released >= releaseAfter {
		q.release()
	}
	for q.next != to && !b.Full() {
		packet, n := q.packet(b, to)
		if n == 0 {
			break
		}
		q.next += n
		m, port, ok := Parse(packet)
		if !ok || port != q.of.port && !checksumHolds(packet) {
			q.of.count.bad.Add(1)
			continue
		}
		m.Port = port
		b.Add(m)
	}
	if q.next != q.seen.Load() {
		q.seen.Store(q.next)
		q.of.count.received.Add(uint64(b.Len()))
	}
	return b.Len(), nil
}

// packet returns the next packet and the number of its entries; 0 if the last has not come. One of
// several pieces is joined in the batch's memory.
func (q *Queue) packet(b *udp.RxBatch, to uint32) (packet []byte, n uint32) {
	d := *q.rx.packet(q.next)
	if d.Options&moreFollows == 0 {
		return q.of.bytes(d.Addr, d.Len), 1
	}
	packet = b.Buffer()[:0]
	for n = 0; q.next+n != to; {
		d = *q.rx.packet(q.next + n)
		n++
		if piece := q.of.bytes(d.Addr, d.Len); len(packet)+len(piece) <= cap(packet) {
			packet = append(packet, piece...)
		}
		if d.Options&moreFollows == 0 {
			return packet, n
		}
	}
	return nil, 0
}

// bytes returns a piece of a packet, empty if it is not within the frames.
func (s *Socket) bytes(addr uint64, n uint32) []byte {
	if addr > uint64(len(s.frames)) || uint64(n) > uint64(len(s.frames))-addr {
		return nil
	}
	return s.frames[addr : addr+uint64(n) : addr+uint64(n)]
}

// release gives the frames of batches that were read back to the kernel, unless another process is
// doing that with its own.
func (q *Queue) release() {
	n := q.next - q.released
	if n == 0 {
		return
	}
	s := q.of
	l := &s.ledger.queue[q.number].fill
	if !l.try(s.place) {
		return
	}
	at := atomic.LoadUint32(q.fill.producer)
	l.produced.Store(at)
	l.consumed.Store(q.released)
	l.count.Store(n)
	for i := range n {
		*q.fill.address(at + i) = q.rx.packet(q.released+i).Addr &^ uint64(s.layout.FrameBytes-1)
	}
	atomic.StoreUint32(q.fill.producer, at+n)
	q.released = q.next
	atomic.StoreUint32(q.rx.consumer, q.released)
	l.count.Store(0)
	l.release()
	q.fill.wake(q.fd)
}

// WriteBatch implements faultcap.Socket.
func (q *Queue) WriteBatch([]udp.Datagrams) (int, error) { return 0, net.ErrClosed }

// WaitWritable implements faultcap.Socket.
func (q *Queue) WaitWritable(monotime.Duration) error { return net.ErrClosed }

// CutsBursts implements faultcap.Socket.
func (q *Queue) CutsBursts() bool { return true }

// LocalAddr implements faultcap.Socket: the port, at no one address.
func (q *Queue) LocalAddr() netip.AddrPort {
	return netip.AddrPortFrom(netip.IPv6Unspecified(), q.of.port)
}

// FD returns a descriptor that is readable while there is something to read.
func (q *Queue) FD() int { return q.fd }

// Close implements faultcap.Socket. The Socket closes its queues.
func (q *Queue) Close() error { return nil }
