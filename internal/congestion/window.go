// SPDX-License-Identifier: BSD-2-Clause

// Package congestion bounds how many bytes a sender may have outstanding on one path, and when the
// next may go. The peer sees nothing of it. It has no clock: times are passed in.
//
// Window is the state of one path. Its Algorithm reacts to acknowledgements, round trips, losses
// and ECN marks, and sets the window and the pace.
package congestion

import (
	"fmt"
	"strings"

	"verbena/internal/monotime"
	"verbena/internal/rtt"
)

// Algorithm selects the congestion control algorithm of a Window.
type Algorithm uint8

// The algorithms. The zero value is the default.
const (
	DeliveryRate Algorithm = iota
	DCQCN
	numAlgorithms
)

var algorithmNames = [numAlgorithms]string{"delivery-rate", "dcqcn"}

func (a Algorithm) String() string { return algorithmNames[a] }

// ParseAlgorithm returns the algorithm of a name; an empty name is that of the default.
func ParseAlgorithm(name string) (Algorithm, error) {
	if name == "" {
		return DeliveryRate, nil
	}
	for a, n := range algorithmNames {
		if n == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("%s: no such congestion control; use %s", name,
		strings.Join(algorithmNames[:], " or "))
}

// algorithm sets the window and the pace of a path.
type algorithm interface {
	// acked takes note that n bytes have arrived.
	acked(w *Window, now monotime.Time, n int)
	// sample takes note that so many bytes were acknowledged during a round trip, which w.RTT knows
	// already. Undisturbed says that nothing was lost meanwhile.
	sample(w *Window, took monotime.Duration, bytes int, undisturbed bool)
	// lost takes note that something was lost, and expired of a time-out that leaves so many bytes.
	// least is the smallest window worth having.
	lost(w *Window, now monotime.Time, least int)
	expired(w *Window, now monotime.Time, least, left int)
	// marked takes note that the network marked a packet.
	marked(w *Window, now monotime.Time, least int)
	// holds takes note that the pace holds a sender back. It may bring sendAt forward, and returns
	// when it may do so again.
	holds(w *Window, now monotime.Time) monotime.Time
	// product returns the product of bandwidth and delay, 0 while it is not known.
	product() int
	// carries takes note that the product is at most so many bytes.
	carries(most int)
	// roundEnds takes note of a round trip whose losses have not shrunk the window. Lost, all and
	// packet have one unit: bytes or packets. It reports whether the window has shrunk now.
	roundEnds(w *Window, now monotime.Time, lost, all, packet int) bool
	// drained takes note that the shortest round trip was measured anew, and that a queue which the
	// window made is gone. The product is that from before.
	drained(w *Window, product int)
	// starts reports whether nothing was lost or marked yet.
	starts() bool
}

// Window is the state of one path.
type Window struct {
	_ [0]func() // nothing compares windows, so programs need no code for it

	RTT rtt.Estimator

	bytes int
	// The pace: paceBytes go out in paceTime, 0 is at once. A sender may be burst ahead of it.
	paceBytes          int
	paceTime           monotime.Duration
	burst              monotime.Duration
	resume             monotime.Time        // when a sender that rests goes on
	rests              bool                 // a sender rests once it is ahead of the pace
	sendAt             monotime.Time        // when the line is free of all sent so far, at the pace
	marked             bool                 // the network marks packets
	calmAt             monotime.Time        // it is not believed to from then on
	queued             bool                 // the newest round trip shows a queue
	trips              [4]monotime.Duration // the newest without a loss
	newest             monotime.Duration    // round trip
	atLoss             monotime.Duration    // the round trip that showed a loss, 0 if there is none
	jitter             monotime.Duration    // by which two round trips in a row differ
	train              train
	wait               wait
	drain              drain
	rank               lossRank
	excess             int     // how many round trips lost much of late
	wentBack           bool    // the sender has gone back
	judged, judgedLost int     // in round trips that are judged together
	full               int     // round trips for which the losses are of a full queue
	unlucky            int     // round trips with losses less those without, since it shrank
	missing            float64 // the part of the newest round trip that was lost
	algorithm          algorithm
}

// Initial is the window of an unknown path, in bytes: that of many hosts at once fits a switch.
// Source: RFC 6928, section 2 (10 segments, 14,600 bytes).
const Initial = 16 << 10

// InitialWide is the first window within a host. It is that of a path, too, once its round trip is
// known to be longer than the queue of a switch: maxQueue.
//
// Source: internal/flows/testdata/start.txt. With Initial instead, flows take 8 round trips instead
// of 6 to fill 1 Gb/s at 10 ms, and at 100 ms TRP takes 11. The goal is 10.
const InitialWide = 128 << 10

// burstTime lets a sender be ahead of the pace: 62 KB at 1 Gb/s, which is one segmented send. On a
// network that marks packets it is markedBurstTime: a burst is to fit the queue from which it
// marks.
const (
	burstTime       = monotime.Millisecond / 2
	markedBurstTime = monotime.Millisecond / 16
)

// Start begins anew with an unknown path.
func (w *Window) Start(a Algorithm) {
	*w = Window{bytes: Initial, burst: burstTime, rank: lossRank{mean: 1}}
	switch a {
	case DeliveryRate:
		w.algorithm = newDeliveryRate()
	case DCQCN:
		w.algorithm = newDCQCN()
	}
}

// Widen takes note that the path, which is unknown as yet, crosses no switch or is long.
func (w *Window) Widen() {
	if w.RTT.Smoothed == 0 {
		w.bytes = max(w.bytes, InitialWide)
	}
}

// Bytes returns the window.
func (w *Window) Bytes() int {
	if w.drain.began != 0 {
		return min(w.bytes, w.drain.window)
	}
	return w.bytes
}

// Marks reports whether the network marks packets.
func (w *Window) Marks() bool { return w.marked }

// A mark says for calmTrips round trips that the network marks packets, and for calmLeast at least.
// Paths change, and one mark of a network that marks by mistake is not to count for ever. An
// algorithm may remember it for longer.
const (
	calmTrips = 16
	calmLeast = monotime.Second
)

// Sample takes in the round trip of a packet that was sent once, and how many bytes were
// acknowledged in its time. Undisturbed says that nothing was lost meanwhile.
func (w *Window) Sample(now monotime.Time, took monotime.Duration, bytes int, undisturbed bool) {
	if took > maxQueue {
		w.Widen()
	}
	w.RTT.Sample(took)
	w.jitters(took)
	w.drains(now, took)
	w.rank.sample(now, took)
	w.algorithm.sample(w, max(took, 1), bytes, undisturbed)
}

// Acked grows the window after n bytes have arrived, and forgets marks that are old.
func (w *Window) Acked(now monotime.Time, n int) {
	if w.marked && !now.Before(w.calmAt) {
		w.marked, w.burst = false, burstTime
	}
	w.train.arrived(now, n)
	w.wait.arrived(now, n, w.RTT.Smoothed)
	w.algorithm.acked(w, now, n)
}

// Lost takes note that something was lost, at most once a round trip. least is the smallest
// window worth having.
func (w *Window) Lost(now monotime.Time, least int) {
	w.rank.lostNewest()
	w.shrink(now, least)
}

func (w *Window) shrink(now monotime.Time, least int) {
	w.train.lost()
	w.algorithm.lost(w, now, least)
}

// Missed takes note that the newest round trip shows a loss. A sender that measures one packet in a
// round trip need not call it.
func (w *Window) Missed() { w.atLoss = w.rank.newest() }

// lossTrip returns the round trip that showed the newest loss, one of those that the rank is among.
// That of the packet that shows it will not do: of a burst the last are answered latest, and show
// most losses.
func (w *Window) lossTrip() monotime.Duration {
	took := w.atLoss
	if w.atLoss = 0; took == 0 {
		return w.rank.newest()
	}
	return took
}

// Starts reports whether the first slow start goes on: few packets are not to end it by chance.
func (w *Window) Starts() bool { return w.algorithm.starts() }

// Expired leaves so many bytes of window after a time-out. Before the round trip is known
// a time-out says that the path is long as likely as that something was lost.
func (w *Window) Expired(now monotime.Time, least, left int) {
	if w.RTT.Smoothed != 0 {
		w.rank.lostNewest()
	}
	w.train.lost()
	w.algorithm.expired(w, now, least, left)
}

// Marked reacts to a mark of the network on a packet of this path: congestion experienced.
func (w *Window) Marked(now monotime.Time, least int) {
	w.marked, w.burst = true, markedBurstTime
	w.calmAt = now.Add(max(calmLeast, calmTrips*w.RTT.Smoothed))
	w.algorithm.marked(w, now, least)
}

// Pace returns when the next packet may be sent, which may be past, or when to ask again. A sender
// that is ahead of the pace is held. Towards a foreign peer that goes back N it then rests until a
// batch may go: a host of one processor takes longer for packets that come one by one.
func (w *Window) Pace(now monotime.Time) monotime.Time {
	at := w.sendAt.Add(-w.burst)
	if now.Before(at) {
		again := w.algorithm.holds(w, now)
		at = min(w.sendAt.Add(-w.burst), again)
	}
	if !w.rests {
		return at
	}
	if now.Before(at) {
		w.resume = at.Add(w.burst / batchPart)
	}
	return w.resume
}

// batchPart is the part of a burst, 1/4, that goes after a rest: 16 KB at 1 Gb/s, one packet at
// least.
const batchPart = 4

// Rate returns the pace in bytes a second, 0 where packets are not paced.
func (w *Window) Rate() float64 {
	if w.paceTime == 0 {
		return 0
	}
	return float64(w.paceBytes) / w.paceTime.Seconds()
}

// Sent takes note of n bytes sent.
func (w *Window) Sent(now monotime.Time, n int) {
	w.train.sent(now, n)
	if w.paceTime == 0 {
		return
	}
	w.sendAt = max(w.sendAt, now).Add(w.takes(n))
}

// Repeated takes note that a packet was sent again.
func (w *Window) Repeated(now monotime.Time) { w.train.repeated(now) }

// takes returns the time that n bytes take at the pace.
func (w *Window) takes(n int) monotime.Duration {
	return monotime.Duration(float64(n) * float64(w.paceTime) / float64(max(w.paceBytes, 1)))
}

// Room returns how many packets of so many bytes the pace permits now, at most most. The caller
// calls Sent for each.
func (w *Window) Room(now monotime.Time, bytes, most int) (n int) {
	if w.paceTime == 0 {
		return most
	}
	took := w.takes(bytes)
	for at := w.sendAt; n < most && !now.Before(at.Add(-w.burst)); n++ {
		at = max(at, now).Add(took)
	}
	return n
}

// Whole reports whether n bytes, all that a sender has outstanding and to send, may go at once and
// not at the pace. A sender of short messages waits for their answers. If its host or that of the
// peer is busy the round trip is long and the pace slow, although the network is idle. To cut each
// message then costs it a timer and another round of both hosts.
func (w *Window) Whole(n int) bool { return n <= wholeBytes && !w.marked }

// wholeBytes is one segmented send.
const wholeBytes = 64 << 10

// Long reports whether the path is one on which the window is paced.
func (w *Window) Long() bool { return w.RTT.Shortest > shortPath }

// ProbeWait returns how long the newest packet of an empty queue waits for its acknowledgement
// before it is sent again. On a long path it is answered within three round trips then, if one is
// lost. After a back-off it is the time-out.
//
// Source: RFC 8985, section 7.2 (probe time-out: two round trips).
func (w *Window) ProbeWait() monotime.Duration {
	wait := w.RTT.Timeout()
	if w.Long() && w.RTT.Backoffs() == 0 {
		wait = min(wait, w.RTT.Smoothed+max(4*w.RTT.Variation, 3*w.RTT.Smoothed/4))
	}
	return wait
}

// shortPath is the round trip below which Free is more than a network needs, and in which
// the scheduling of processes hides all queues.
const shortPath = monotime.Millisecond
