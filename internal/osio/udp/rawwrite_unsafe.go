//go:build linux

package udp

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// txControlWords bounds the control messages of one item, in 8-byte words:
// segment size, TOS and TTL, each a header of two words and a value of one.
const txControlWords = 9

// txScratch holds the headers of one sendmmsg.
type txScratch struct {
	hdr  [txMessages]unix.Mmsghdr
	iov  [maxIovecs]unix.Iovec
	name [txMessages]unix.RawSockaddrInet6
	ctl  [txMessages][txControlWords]uint64
	n    int // messages filled
	vecs int // vectors filled
}

// txFree keeps scratches for reuse: as many as goroutines write at once on a
// large machine. One more than that costs an allocation, nothing else.
var txFree [8]atomic.Pointer[txScratch]

func takeScratch() *txScratch {
	for i := range txFree {
		if t := txFree[i].Swap(nil); t != nil {
			return t
		}
	}
	t := &txScratch{}
	for i := range t.hdr {
		t.hdr[i].Hdr.Name = (*byte)(unsafe.Pointer(&t.name[i]))
		t.hdr[i].Hdr.Control = (*byte)(unsafe.Pointer(&t.ctl[i][0]))
	}
	return t
}

func (t *txScratch) give() {
	t.clear()
	for i := range txFree {
		if txFree[i].CompareAndSwap(nil, t) {
			return
		}
	}
}

// clear forgets the application's memory: a stale pointer to C memory that was
// unmapped is fatal to the garbage collector when it reuses the addresses.
func (t *txScratch) clear() {
	clear(t.iov[:t.vecs])
	t.n, t.vecs = 0, 0
}

// room reports whether an item of so many vectors still fits.
func (t *txScratch) room(vecs int) bool { return t.n < txMessages && t.vecs+vecs <= maxIovecs }

// push adds a vector of the message being built.
func (t *txScratch) push(p []byte) {
	if len(p) == 0 {
		return
	}
	v := &t.iov[t.vecs]
	v.Base = unsafe.SliceData(p)
	v.SetLen(len(p))
	t.vecs++
}

// finish completes a message whose vectors start at from.
func (t *txScratch) finish(r *raw, d *Datagrams, from, segment int) {
	m := &t.hdr[t.n].Hdr
	m.Iov = nil
	if t.vecs > from {
		m.Iov = &t.iov[from]
	}
	m.SetIovlen(t.vecs - from)
	m.Namelen = r.putName(&t.name[t.n], d.Dst)
	m.SetControllen(r.putControl(&t.ctl[t.n], d, segment))
	m.Flags = 0
	t.n++
}

func (r *raw) putName(name *unix.RawSockaddrInet6, dst netip.AddrPort) uint32 {
	if !r.v6 {
		n4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		n4.Family = unix.AF_INET
		n4.Addr = dst.Addr().Unmap().As4()
		binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&n4.Port))[:], dst.Port())
		return unix.SizeofSockaddrInet4
	}
	name.Family = unix.AF_INET6
	name.Addr = dst.Addr().As16()
	name.Flowinfo, name.Scope_id = 0, 0
	if a := dst.Addr(); a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		name.Scope_id = r.scope
	}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&name.Port))[:], dst.Port())
	return unix.SizeofSockaddrInet6
}

// putControl writes the control messages an item needs and returns their size.
func (r *raw) putControl(ctl *[txControlWords]uint64, d *Datagrams, segment int) int {
	b := (*[txControlWords * 8]byte)(unsafe.Pointer(ctl))[:]
	at := 0
	put := func(level, typ int32, size int) []byte {
		c := (*unix.Cmsghdr)(unsafe.Pointer(&b[at]))
		c.Level, c.Type = level, typ
		c.SetLen(unix.CmsgLen(size))
		val := b[at+unix.CmsgLen(0):][:size]
		at += unix.CmsgSpace(size)
		return val
	}
	if segment > 0 {
		binary.NativeEndian.PutUint16(put(unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2), uint16(segment))
	}
	level, tos, ttl := int32(unix.IPPROTO_IP), int32(unix.IP_TOS), int32(unix.IP_TTL)
	if r.v6 {
		level, tos, ttl = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT
	}
	if d.TOS != 0 {
		binary.NativeEndian.PutUint32(put(level, tos, 4), uint32(d.TOS))
	}
	if d.TTL != 0 {
		binary.NativeEndian.PutUint32(put(level, ttl, 4), uint32(d.TTL))
	}
	return at
}

// check returns the bytes of an item, or what is wrong with it.
func (r *raw) check(d *Datagrams) (int, error) {
	if !d.Dst.IsValid() || d.Dst.Addr().Unmap().Is4() == r.v6 {
		return 0, errFamily
	}
	if len(d.Iov) > maxIovecs {
		return 0, errIovecs
	}
	n := d.Bytes()
	if d.SegmentSize < 0 || n > MaxTrainBytes || d.SegmentSize > 0 && n > d.SegmentSize*MaxSegments {
		return 0, errTrain
	}
	return n, nil
}

func (r *raw) writeBatch(d []Datagrams) (int, error) {
	t := takeScratch()
	defer t.give()
	done := 0
	for done < len(d) {
		if r.noSegment.Load() && isTrain(&d[done]) {
			more, err := r.writeSplit(t, &d[done])
			if !more || err != nil {
				return done, err
			}
			done++
			continue
		}
		n, err := r.fill(t, d[done:])
		if n == 0 && err != nil {
			return done, err // malformed: named to the caller after what went before
		}
		sent, errno := t.send(r.desc)
		t.clear()
		r.countSent(d[done : done+sent])
		done += sent
		if errno == 0 {
			continue
		}
		more, err := r.failed(t, &d[done], errno)
		if !more || err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}

func isTrain(d *Datagrams) bool { return d.SegmentSize > 0 && d.Bytes() > d.SegmentSize }

// fill makes messages of as many items as fit one call.
func (r *raw) fill(t *txScratch, d []Datagrams) (int, error) {
	noSegment := r.noSegment.Load()
	for i := range d {
		bytes, err := r.check(&d[i])
		if err != nil {
			return i, err
		}
		segment := d[i].SegmentSize
		if bytes <= segment {
			segment = 0
		}
		if !t.room(len(d[i].Iov)) || segment > 0 && noSegment {
			return i, nil
		}
		from := t.vecs
		for _, p := range d[i].Iov {
			t.push(p)
		}
		t.finish(r, &d[i], from, segment)
	}
	return len(d), nil
}

// send hands the messages filled to the kernel and returns how many it took.
// If fewer than all, errno is what the first of the others met.
func (t *txScratch) send(fd int) (sent int, errno syscall.Errno) {
	for tries := 0; sent < t.n; {
		r1, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&t.hdr[sent])), uintptr(t.n-sent), unix.MSG_DONTWAIT, 0, 0)
		if e == unix.EINTR && tries < maxRetriesEINTR {
			tries++
			continue
		}
		if e != 0 {
			return sent, e
		}
		sent += int(r1) // short: the next round brings the reason
	}
	return sent, 0
}

func (r *raw) countSent(d []Datagrams) {
	datagrams, bytes := 0, 0
	for i := range d {
		n := d[i].Bytes()
		bytes += n
		if s := d[i].SegmentSize; s > 0 && n > s {
			datagrams += (n + s - 1) / s
		} else {
			datagrams++
		}
	}
	r.count.sentMessages.Add(uint64(len(d)))
	r.count.sentDatagrams.Add(uint64(datagrams))
	r.count.sentBytes.Add(uint64(bytes))
}

// failed decides what becomes of an item the kernel refused: more reports that
// it is done with and the next may be tried.
func (r *raw) failed(t *txScratch, d *Datagrams, errno syscall.Errno) (more bool, err error) {
	switch errno {
	case unix.EAGAIN, unix.ENOBUFS, unix.EINTR:
		r.count.sendBlocked.Add(1)
		return false, nil
	case unix.EMSGSIZE:
		r.count.tooBig.Add(1)
		return true, nil
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EPERM, unix.EACCES, unix.ENETDOWN, unix.EHOSTDOWN, unix.EADDRNOTAVAIL:
		r.count.unreachable.Add(1)
		return true, nil
	case unix.EIO, unix.EINVAL, unix.EOPNOTSUPP:
		if isTrain(d) {
			// The route's device cannot cut it, or (before Linux 6.9) its
			// datagrams are too big; sending them one by one tells which.
			tooBig := r.count.tooBig.Load()
			more, err = r.writeSplit(t, d)
			if more && err == nil && r.count.tooBig.Load() == tooBig {
				r.noSegment.Store(true)
			}
			return more, err
		}
	}
	return false, os.NewSyscallError("sendmmsg", errno)
}

// writeSplit sends a train as one datagram each. more is false if the system's
// buffers were full before the first; what does not fit after that is lost.
func (r *raw) writeSplit(t *txScratch, d *Datagrams) (more bool, err error) {
	if _, err := r.check(d); err != nil {
		return false, err
	}
	r.count.split.Add(1)
	c := cutter{iov: d.Iov}
	left := (d.Bytes() + d.SegmentSize - 1) / d.SegmentSize
	for sentAny := false; left > 0; {
		for left > t.n && t.room(len(d.Iov)+1-c.at) {
			from := t.vecs
			c.cut(t, d.SegmentSize)
			t.finish(r, d, from, 0)
		}
		sent, errno := t.send(r.desc)
		bytes := 0
		for i := range sent {
			bytes += int(t.hdr[i].Len)
		}
		t.clear()
		r.count.sentMessages.Add(uint64(sent))
		r.count.sentDatagrams.Add(uint64(sent))
		r.count.sentBytes.Add(uint64(bytes))
		left -= sent
		sentAny = sentAny || sent > 0
		if errno == 0 {
			continue
		}
		single := Datagrams{Dst: d.Dst}
		more, err := r.failed(t, &single, errno)
		if !more && err == nil && !sentAny {
			return false, nil
		}
		r.count.rest.Add(uint64(left))
		return true, err
	}
	return true, nil
}

// cutter walks a scatter list a datagram at a time.
type cutter struct {
	iov [][]byte
	at  int // element
	off int // bytes of it already used
}

// cut pushes the next n bytes, fewer at the end of the list.
func (c *cutter) cut(t *txScratch, n int) {
	for n > 0 && c.at < len(c.iov) {
		p := c.iov[c.at][c.off:]
		if len(p) > n {
			t.push(p[:n])
			c.off += n
			return
		}
		t.push(p)
		n -= len(p)
		c.at, c.off = c.at+1, 0
	}
}
