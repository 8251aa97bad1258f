package queue

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"verbena/ib"
)

// armed says for which completion OnEvent is to be called.
type armed uint8

const (
	armedNot       armed = iota // after NewCQ and after each event
	armedSolicited              // a solicited one or an error
	armedNext                   // any
)

// A CQ is a ring of completions that several queue pairs push into and any
// goroutine polls. All methods may be called concurrently.
//
// Pushing and polling have a lock each and meet only at the counters, so that
// an empty poll is two loads and neither side waits for the other.
//
// Lock order: pollMu, then pushMu.
type CQ struct {
	// OnEvent is called, without any lock, for the completion that the queue
	// was armed for. Set it before the first Arm; nil means no events.
	OnEvent func()

	pollMu sync.Mutex
	head   atomic.Uint64 // completions polled; written under pollMu

	_ [64]byte // the two sides on cache lines of their own

	pushMu sync.Mutex
	tail   atomic.Uint64 // completions pushed; written under pushMu
	// guarded by pushMu
	armed armed

	overflowed atomic.Bool

	// written under both locks
	depth int
	mask  uint64
	slots []ib.WC // a power of two of them, at least depth
}

// NewCQ returns a queue of depth completions, at least one.
func NewCQ(depth int) *CQ {
	q := &CQ{depth: max(depth, 1)}
	q.slots, q.mask = newSlots(q.depth)
	return q
}

func newSlots(depth int) ([]ib.WC, uint64) {
	n := uint64(1) << bits.Len64(uint64(depth-1))
	return make([]ib.WC, n), n - 1
}

// Push appends a completion; solicited says that its message asked for an
// event. It returns false if the queue is full: the completion is lost, the
// queue Overflowed for good, and its owner raises EventCQErr.
func (q *CQ) Push(wc *ib.WC, solicited bool) bool {
	q.pushMu.Lock()
	t := q.tail.Load()
	if t-q.head.Load() >= uint64(q.depth) {
		q.overflowed.Store(true)
		q.pushMu.Unlock()
		return false
	}
	q.slots[t&q.mask] = *wc
	q.tail.Store(t + 1)
	fire := q.armed == armedNext || q.armed == armedSolicited && (solicited || wc.Status != ib.WCSuccess)
	if fire {
		q.armed = armedNot
	}
	q.pushMu.Unlock()
	if fire && q.OnEvent != nil {
		q.OnEvent()
	}
	return true
}

// Poll moves up to len(dst) completions to dst, oldest first, and returns how
// many. An empty queue costs no lock.
func (q *CQ) Poll(dst []ib.WC) int {
	if q.Len() == 0 {
		return 0
	}
	q.pollMu.Lock()
	h := q.head.Load()
	n := min(uint64(len(dst)), q.tail.Load()-h)
	for i := range n {
		dst[i] = q.slots[(h+i)&q.mask]
	}
	q.head.Store(h + n)
	q.pollMu.Unlock()
	return int(n)
}

// Arm asks for one call of OnEvent at the next completion pushed from now on,
// or, with solicitedOnly, at the next that is solicited or an error. What is
// in the queue already makes no event: poll once more after arming. Armed for
// any completion it stays so if armed again for solicited ones.
//
// Spec: IBTA vol. 1, 11.4.2.2; ibv_req_notify_cq(3).
func (q *CQ) Arm(solicitedOnly bool) {
	q.pushMu.Lock()
	if !solicitedOnly {
		q.armed = armedNext
	} else if q.armed == armedNot {
		q.armed = armedSolicited
	}
	q.pushMu.Unlock()
}

// Len returns the number of completions in the queue.
func (q *CQ) Len() int {
	h := q.head.Load() // before tail, which never falls behind it
	return int(q.tail.Load() - h)
}

// Cap returns how many there can be.
func (q *CQ) Cap() int {
	q.pushMu.Lock()
	defer q.pushMu.Unlock()
	return q.depth
}

// Overflowed reports whether a completion was ever lost.
func (q *CQ) Overflowed() bool { return q.overflowed.Load() }

// Resize changes how many completions there can be; those in the queue stay.
//
// Errors: ErrInvalid if n is less than 1 or than Len.
func (q *CQ) Resize(n int) error {
	q.pollMu.Lock()
	defer q.pollMu.Unlock()
	q.pushMu.Lock()
	defer q.pushMu.Unlock()
	h, t := q.head.Load(), q.tail.Load()
	if n < 1 || uint64(n) < t-h {
		return fmt.Errorf("%w: size %d, %d completions held", ErrInvalid, n, t-h)
	}
	slots, mask := newSlots(n)
	for i := h; i != t; i++ {
		slots[i&mask] = q.slots[i&q.mask]
	}
	q.depth, q.slots, q.mask = n, slots, mask
	return nil
}

// Purge removes the completions of queue pair qpn, which is being reset or
// destroyed, and returns how many. The others keep their order.
func (q *CQ) Purge(qpn ib.QPN) int {
	q.pollMu.Lock()
	defer q.pollMu.Unlock()
	q.pushMu.Lock()
	defer q.pushMu.Unlock()
	h, t := q.head.Load(), q.tail.Load()
	keep := t // fill from the newest end, so that only head moves
	for i := t; i != h; i-- {
		if wc := &q.slots[(i-1)&q.mask]; wc.QPN != qpn {
			keep--
			q.slots[keep&q.mask] = *wc
		}
	}
	q.head.Store(keep)
	return int(keep - h)
}
