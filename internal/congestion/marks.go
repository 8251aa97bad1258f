// SPDX-License-Identifier: BSD-2-Clause

package congestion

import "verbena/internal/monotime"

// marks follows how much of the time the network marks packets, alpha. A receiver sends one
// notification for all packets marked within some microseconds, so the part of packets is not
// known. Time is cut into slots. Alpha follows the part of a round trip's slots with a mark.
//
// Source: RFC 8257, sections 3.3 and 3.4 (DCTCP), with slots instead of bytes.
type marks struct {
	alpha    float64
	slots    int           // of this round with a mark
	arrived  int           // bytes of this round
	slotEnd  monotime.Time // further marks are of the same slot until then
	roundEnd monotime.Time
	reacted  bool // to a mark: until marks are old, and on a long path a queue shows
}

// markGain is the weight of the newest round trip in alpha. Source: RFC 8257, section 4.2.
const markGain = 1.0 / 16

// markSlot is the least time between two notifications of one flow: N in the DCQCN paper.
const markSlot = 50 * monotime.Microsecond

// startupMarks is the part of the slots with a mark from which slow start ends. Bursts of a sender
// that does not yet fill the path are marked, too. Source: BBRv3
// (draft-ietf-ccwg-bbr, full_ecn_thresh).
const startupMarks = 0.25

// acked takes note that n bytes have arrived.
func (m *marks) acked(now monotime.Time, n int) {
	if now.Before(m.roundEnd) {
		m.arrived += n
	}
}

// marked takes note of a mark. Once a round trip it returns the part of the window to take away.
func (m *marks) marked(w *Window, now monotime.Time, least int, startsSlowly bool) (float64, bool) {
	if now.Before(m.slotEnd) {
		return 0, false
	}
	trip := max(w.RTT.Smoothed, 1)
	m.slotEnd = now.Add(markSlot)
	most := min(float64(max(trip, markSlot))/float64(markSlot), float64(m.arrived)/float64(least))
	part := min(float64(m.slots)/max(most, 1), 1)
	if now.Before(m.roundEnd) {
		m.slots++
		if !startsSlowly || m.slots < int(startupMarks*float64(max(trip, markSlot)/markSlot)) {
			return 0, false
		}
	}
	rounds := now.Sub(m.roundEnd) / trip // without marks
	m.slots, m.arrived, m.roundEnd = 1, 0, now.Add(trip)
	if startsSlowly && part < startupMarks {
		return 0, false
	}
	if !m.reacted {
		m.reacted, m.alpha = true, 1
	} else {
		m.alpha += float64((part - m.alpha) * markGain)
		for ; rounds > 0 && m.alpha > markGain/16; rounds-- {
			m.alpha -= float64(m.alpha * markGain)
		}
	}
	return m.alpha / 2, true
}
