// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// check returns the bytes of an item, or its error.
func (r *raw) check(d *Datagrams) (int, error) {
	if !d.Dst.IsValid() || d.Dst.Addr().Unmap().Is4() == r.v6 {
		return 0, errFamily
	}
	if len(d.Iov) > maxIovecs {
		return 0, errIovecs
	}
	n := d.Bytes()
	if d.SegmentSize < 0 || n > MaxBurstBytes ||
		d.SegmentSize > 0 && n > d.SegmentSize*MaxSegments {
		return 0, errBurst
	}
	return n, nil
}

func (r *raw) writeBatch(d []Datagrams) (int, error) {
	if fdtrack.Lost() {
		return 0, os.NewSyscallError("sendmmsg", unix.EBADF)
	}
	t := takeScratch()
	defer t.give()
	done := 0
	for done < len(d) {
		if r.noSegment.Load() && isBurst(&d[done]) {
			more, err := r.writeSplit(t, &d[done])
			if !more || err != nil {
				return done, err
			}
			done++
			continue
		}
		n, err := r.fill(t, d[done:])
		if n == 0 && err != nil {
			return done, err // malformed: named to the caller after the items before
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

func isBurst(d *Datagrams) bool { return d.SegmentSize > 0 && d.Bytes() > d.SegmentSize }

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

// failed decides the fate of an item the kernel refused: more reports that it is done with and the
// next may be tried.
func (r *raw) failed(t *txScratch, d *Datagrams, errno syscall.Errno) (more bool, err error) {
	switch errno {
	case unix.EAGAIN, unix.ENOBUFS, unix.EINTR:
		r.count.sendBlocked.Add(1)
		return false, nil
	case unix.EMSGSIZE:
		r.count.tooBig.Add(1)
		r.erred.Store(true)
		return true, nil
	case unix.EFAULT:
		// The application has unmapped memory to be sent. The packet is lost, as on any network;
		// its retransmission reveals the state of the memory.
		return true, nil
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EPERM, unix.EACCES,
		unix.ENETDOWN, unix.EHOSTDOWN, unix.EADDRNOTAVAIL:
		r.count.unreachable.Add(1)
		r.erred.Store(true)
		return true, nil
	case unix.EIO, unix.EINVAL, unix.EOPNOTSUPP:
		if isBurst(d) {
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

// writeSplit sends a burst as one datagram each. more is false if the system's buffers were full
// before the first; datagrams that do not fit after that are lost.
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
