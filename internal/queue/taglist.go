// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"fmt"
	"sync"

	"verbena/ib"
)

// TagLimit is the most tagged receives of a list. A handle has the place of a receive in its lowest
// bits.
const (
	TagLimit = 1 << tagBits
	tagBits  = 10
)

// A TagList holds the tagged receives of a shared receive queue in the order in which messages are
// compared with them. A message without a match takes a receive of the shared queue: it is
// unexpected.
//
// The application may be adding a receive while a message that it would match arrives as an
// unexpected one. So receives that are added before the application has handled all unexpected
// messages match nothing. They are at the end of the list, and match once it has.
//
//	[ enabled, oldest … | added since, wait for a sync … newest ]
//
// All methods may be called concurrently. Completions of operations are pushed under the lock: none
// comes after that of a message that matched the receive added.
//
// Source: rdma-core, Documentation/tag_matching.md.
type TagList struct {
	// immutable
	srq    *SRQ
	push   func(*ib.WC, bool) bool
	most   int // tagged receives
	maxSGE int

	mu sync.Mutex
	// guarded by mu
	list       []tagged
	enabled    int // those before it
	recvs      []tagRecv
	free       []uint32 // places in recvs
	unexpected uint32   // messages that took a receive of srq, but for those of Uncount
	handled    uint32   // as the application says
	closed     bool
	wc         ib.WC // scratch: passing it on by pointer costs no allocation
}

// tagged has the part of a receive that messages are compared with, dense for the sake of caches.
type tagged struct {
	tag, mask uint64
	place     uint32
}

type tagRecv struct {
	RecvWQE
	handle uint32 // its place, and above that how often the place was used
	inUse  bool
}

// NewTagList returns the empty list of a queue. It has up to most tagged receives with at most
// maxSGE elements each. push takes completions of its operations.
func NewTagList(s *SRQ, most, maxSGE int, push func(*ib.WC, bool) bool) *TagList {
	return &TagList{srq: s, push: push, most: min(most, TagLimit), maxSGE: maxSGE}
}

// MaxSGE returns how many elements a tagged receive may have.
func (l *TagList) MaxSGE() int { return l.maxSGE }

// Len returns the number of tagged receives, and how many of them messages can match.
func (l *TagList) Len() (n, enabled int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list), l.enabled
}

// Post carries out an operation. TagAdd sets wr.Handle. TagDel of a receive that is not there, as a
// message may have matched it, completes with WCTMErr.
//
// Errors: ErrFull; ErrInvalid; ErrClosed. After an error nothing has changed.
func (l *TagList) Post(wr *ib.TagWR) error {
	n, ok := TotalLength(wr.SGList)
	switch {
	case wr.Opcode > ib.TagSync:
		return fmt.Errorf("%w: operation %d", ErrInvalid, wr.Opcode)
	case wr.Flags&^(ib.TagSignaled|ib.TagUnexpected) != 0:
		return fmt.Errorf("%w: flags %#x", ErrInvalid, uint8(wr.Flags))
	case wr.Opcode != ib.TagAdd:
	case !ok:
		return fmt.Errorf("%w: receive of more than %d bytes", ErrInvalid, uint32(ib.MaxMessage))
	case len(wr.SGList) > l.maxSGE:
		return fmt.Errorf("%w: %d elements, the list takes %d", ErrInvalid, len(wr.SGList),
			l.maxSGE)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if wr.Opcode == ib.TagAdd && len(l.list) == l.most {
		return fmt.Errorf("%w: %d tagged receives", ErrFull, l.most)
	}
	l.wc = ib.WC{WRID: wr.ID}
	switch wr.Opcode {
	case ib.TagAdd:
		l.wc.Opcode = ib.WCTMAdd
		wr.Handle = l.add(wr, n)
	case ib.TagDel:
		l.wc.Opcode = ib.WCTMDel
		if !l.remove(wr.Handle) {
			l.wc.Status = ib.WCTMErr
		}
	case ib.TagSync:
		l.wc.Opcode = ib.WCTMSync
	}
	if wr.Flags&ib.TagUnexpected != 0 {
		l.handled = wr.UnexpectedCnt
	}
	if l.handled == l.unexpected {
		l.enabled = len(l.list)
	} else {
		l.wc.Flags = ib.WCTMSyncReq
	}
	if wr.Flags&ib.TagSignaled != 0 || l.wc.Status != ib.WCSuccess {
		l.push(&l.wc, true)
	}
	return nil
}

// Close ends Post, and with that the completions of operations.
func (l *TagList) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}

// add appends a receive of n bytes and returns its handle.
func (l *TagList) add(wr *ib.TagWR, n uint32) uint32 {
	if len(l.free) == 0 {
		l.free = append(l.free, uint32(len(l.recvs)))
		l.recvs = append(l.recvs, tagRecv{handle: uint32(len(l.recvs))})
	}
	place := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	r := &l.recvs[place]
	r.handle += TagLimit
	r.inUse = true
	r.WRID, r.Length, r.SGE = wr.RecvID, n, append(r.SGE[:0], wr.SGList...)
	l.list = append(l.list, tagged{tag: wr.Tag, mask: wr.Mask, place: place})
	return r.handle
}

// remove takes the receive with a handle out, and reports whether it was there.
func (l *TagList) remove(handle uint32) bool {
	place := handle % TagLimit
	if int(place) >= len(l.recvs) || !l.recvs[place].inUse || l.recvs[place].handle != handle {
		return false
	}
	for i := range l.list {
		if l.list[i].place == place {
			l.drop(i)
			break
		}
	}
	return true
}

// drop removes the i-th receive of the list.
func (l *TagList) drop(i int) {
	place := l.list[i].place
	l.recvs[place].inUse = false
	l.free = append(l.free, place)
	l.list = append(l.list[:i], l.list[i+1:]...)
	if i < l.enabled {
		l.enabled--
	}
}

// Take copies the receive for a message with a tag to dst, as SRQ.Pop does: the oldest that matches
// and is enabled, else one of the shared queue. ok is false if that is empty.
func (l *TagList) Take(dst *RecvWQE, tag uint64) (matched, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.list[:l.enabled] {
		t := &l.list[i]
		if tag&t.mask != t.tag {
			continue
		}
		r := &l.recvs[t.place]
		dst.WRID, dst.Length, dst.SGE = r.WRID, r.Length, append(dst.SGE[:0], r.SGE...)
		l.drop(i)
		return true, true
	}
	if ok = l.srq.Pop(dst); ok {
		l.unexpected++
	}
	return false, ok
}

// Uncount takes an unexpected message off their number. Its receive completes with an error, or not
// at all, so the application does not count it.
func (l *TagList) Uncount() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unexpected--; l.handled == l.unexpected {
		l.enabled = len(l.list)
	}
}

// MustSync reports whether receives wait until the application has handled the unexpected messages.
func (l *TagList) MustSync() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enabled < len(l.list)
}
