// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"bytes"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxBacklog bounds the datagrams that wait for one member: one for each queue pair that
	// a process can have. All of its connections may end at once.
	maxBacklog = 1 << SlotShift
	// maxBacklogBytes bounds their payloads: that many MADs, each of 280 bytes with its
	// RoCEv2 headers. A member that is stopped costs the keeper no more memory.
	maxBacklogBytes = maxBacklog * 280
)

// backlog queues datagrams that found a link full. A process may be slower than a burst
// for a moment, for example where there are fewer cores than processes. The peer repeats
// each lost datagram only seconds later.
type backlog struct {
	mads  []MAD // the oldest first
	bytes int   // of their payloads
}

// add appends a copy of d. It reports whether there was room; otherwise d is lost.
func (b *backlog) add(d MAD) bool {
	if len(b.mads) == maxBacklog || b.bytes+len(d.Payload) > maxBacklogBytes {
		return false
	}
	d.Payload = bytes.Clone(d.Payload)
	b.mads = append(b.mads, d)
	b.bytes += len(d.Payload)
	return true
}

// drop removes the oldest datagram, and after the last one gives all memory back.
func (b *backlog) drop() {
	b.bytes -= len(b.mads[0].Payload)
	b.mads[0] = MAD{}
	if b.mads = b.mads[1:]; len(b.mads) == 0 {
		b.mads = nil
	}
}

// forward sends a member a datagram after those in its backlog. It never blocks. A member
// that does not read loses datagrams once its backlog is full, as at a full socket.
func (k *keeper) forward(l *link, d MAD) {
	first := len(l.backlog.mads) == 0
	if first && l.pass(&d) != unix.EAGAIN {
		return
	}
	if !l.backlog.add(d) {
		k.lost.Add(1)
	} else if first && !l.catchUp() {
		k.behind = append(k.behind, l)
	}
}

// pass sends a datagram if there is room.
func (l *link) pass(d *MAD) error {
	return l.offer(frame{Kind: kindMAD, Src: d.Src, Addr: d.Dst, TOS: d.TOS, Data: d.Payload})
}

// catchUp sends a link's backlog as far as there is room. It reports whether the backlog
// is empty; if not, the watch reports when there is room again.
func (l *link) catchUp() (done bool) {
	for len(l.backlog.mads) > 0 {
		err := l.pass(&l.backlog.mads[0])
		if err == unix.EAGAIN {
			l.full.Store(true)
			if err = l.do(func(int) error {
				return l.watch.arm(l.socket, unix.EPOLLOUT)
			}); err == nil {
				return false
			}
		}
		if err != nil { // the link has ended
			l.backlog = backlog{}
			return true
		}
		l.backlog.drop()
	}
	return true
}

// catchUp serves the links that have room again or have ended.
func (k *keeper) catchUp() {
	k.behind = slices.DeleteFunc(k.behind, func(l *link) bool {
		return (l.ended() || !l.full.Load()) && l.catchUp()
	})
}

// settlePatience bounds the wait of a keeper that leaves for members that are behind: one
// for all, because a stopped member uses it up. Longer in tests.
var settlePatience = writeTimeout

// settle sends the backlogs of a keeper that leaves.
func (k *keeper) settle() {
	end := time.Now().Add(settlePatience)
	for p := (pause{}); len(k.behind) > 0 && time.Now().Before(end); p.wait() {
		k.catchUp()
	}
}
