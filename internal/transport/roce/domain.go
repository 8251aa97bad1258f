// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"os"
	"sync"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/sys/xrcfile"
)

// Domain has the shared receive queues of an XRC domain. Processes of a user that enter a domain by
// one file share it. The number of a queue says whose it is. A target that gets a message for a
// queue of another process asks that process to take its requests. The other process makes a target
// for them. No application sees that one, and it completes with the number of the first. Package rc
// describes what the two do.
//
//	sharer ─ asked ──link──► caller ─ served      "serve": here are my number and address
//	target ──────────ring──────────► target       packets, and the answers back
//
// The link lasts as long as the two targets need each other. Its end says that one of them has
// gone, in whatever way.
type Domain struct {
	// immutable after Enter
	roce     *Transport
	info     device.Info
	counters *engine.DeviceCounters
	place    *xrcfile.Place // among the processes that share the domain; nil: none does
	lend     Lender         // of its queue pairs to other processes

	mu       sync.RWMutex // a leaf: taken with a Conn locked
	inboxes  map[ib.SRQN]*rc.Inbox
	served   map[*served]struct{}  // nil after Leave
	lendings map[*lending]struct{} // nil after Leave
}

// NewDomain returns a domain of a device that only this process has.
func (t *Transport) NewDomain(info device.Info, counters *engine.DeviceCounters) *Domain {
	return &Domain{roce: t, info: info, counters: counters, inboxes: map[ib.SRQN]*rc.Inbox{},
		served: map[*served]struct{}{}, lendings: map[*lending]struct{}{}}
}

// Shareable reports whether processes can share domains: they do if their packets go by rings.
func (t *Transport) Shareable() bool { return t.rings.Shared() }

// Enter makes the domain that of a file, which other processes may have entered. It is called
// before the domain is used. They open queue pairs by lend. The errors are those of xrcfile.Enter.
func (d *Domain) Enter(f *os.File, create, exclusive bool, lend Lender) (err error) {
	t := d.roce
	d.lend = lend
	d.place, err = xrcfile.Enter(xrcfile.Options{Path: t.member.Meeting, Slot: t.rings.Slot(),
		File: f, Device: d.info.Name, Create: create, Exclusive: exclusive,
		Accept: func(l *xrcfile.Link) xrcfile.Handler { return &caller{domain: d, link: l} }})
	return err
}

// Leave ends Enter. No target and no queue of the domain is left.
func (d *Domain) Leave() {
	if d.place == nil {
		return
	}
	d.place.Close()
	d.mu.Lock()
	all, lendings := d.served, d.lendings
	d.served, d.lendings = nil, nil
	d.mu.Unlock()
	for s := range all {
		s.end()
	}
	for l := range lendings {
		l.qp.Return()
	}
}

// Add adds a shared receive queue.
func (d *Domain) Add(n ib.SRQN, b *rc.Inbox) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inboxes[n] = b
}

// Remove takes a shared receive queue away. When it returns, no target of other processes takes
// receives from it, completes for it, or reads or writes its memory.
func (d *Domain) Remove(n ib.SRQN) {
	d.mu.Lock()
	delete(d.inboxes, n)
	var conns []*engine.Conn
	for s := range d.served {
		conns = append(conns, s.conn)
	}
	d.mu.Unlock()
	for _, c := range conns {
		Forget(c, n)
	}
}

// Forget has a target forget a queue that its domain does not find any more.
func Forget(target *engine.Conn, n ib.SRQN) {
	target.Lock()
	target.Machine().(*rc.QP).Forget(n)
	target.Unlock()
}

// find is the look-up of a shared receive queue by a target.
func (d *Domain) find(n ib.SRQN) *rc.Inbox {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.inboxes[n]
}

// NewTarget makes an XRC_RECV queue pair of the domain.
func (d *Domain) NewTarget(onEvent func(ib.EventType)) (*engine.Conn, error) {
	s := &sharer{domain: d}
	var err error
	s.conn, err = d.roce.NewConn(d.counters, func(n ib.QPN) roce.Machine {
		m := rc.NewXRCRecv(roce.Config{QPN: n, Reorder: d.roce.Reorder,
			OnViolation: d.counters.Violation}, d.find)
		if d.place != nil {
			m.Share(s)
		}
		return m
	}, onEvent, d.roce.eng.FirstLane())
	return s.conn, err
}

// Numbers returns the first and the last number of shared receive queues of this process. They are
// those of its queue pairs, too.
func (t *Transport) Numbers() (first, last ib.SRQN) {
	lo, hi := t.member.QPNRange()
	return ib.SRQN(lo), ib.SRQN(hi)
}
