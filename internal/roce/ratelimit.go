// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/ib"
	"verbena/internal/monotime"
)

// RateLimit bounds how fast a queue pair sends: ibv_modify_qp_rate_limit(3). It counts the bytes of
// the packets that the send queue makes, from BTH to ICRC. Acknowledgements and the responses to
// READs, which the peer asked for, go at once. Another one may limit those: rc/responserate.go. The
// zero value is no limit.
type RateLimit struct {
	kbps  uint32
	slack monotime.Duration // how far the sender may be ahead of the rate
	free  monotime.Time     // when all that is sent has gone out, at the rate
	waits bool              // a packet is held until next
}

// defaultSlack is the time that a queue pair may be ahead of its rate, where max_burst_sz says
// nothing. A timer that is late by less costs no rate.
const defaultSlack = monotime.Millisecond

// Set takes over a limit. Where typical_pkt_sz says nothing packets are as long as the path MTU.
func (l *RateLimit) Set(a *ib.QPAttr, mtu int) {
	*l = RateLimit{kbps: a.RateLimit, free: l.free, slack: defaultSlack}
	if a.RateBurst != 0 && l.kbps != 0 {
		packet := int(a.RatePacket)
		if packet == 0 {
			packet = mtu
		}
		l.slack = l.time(max(int(a.RateBurst)-packet, 0))
	}
	if l.kbps == 0 {
		l.free = 0
	}
}

// Follow sets a limit of rate bytes a second. A sender may be slack ahead of it.
func (l *RateLimit) Follow(rate float64, slack monotime.Duration) {
	l.kbps, l.slack = uint32(rate*8/1000), slack
}

// time returns how long n bytes take at the rate.
func (l *RateLimit) time(n int) monotime.Duration {
	return monotime.Duration(float64(n) * 8 * float64(monotime.Millisecond) / float64(l.kbps))
}

// Limited reports whether there is a limit.
func (l *RateLimit) Limited() bool { return l.kbps != 0 }

// Within returns how many bytes go out in a time at the rate.
func (l *RateLimit) Within(d monotime.Duration) int {
	return int(float64(l.kbps) / 8 * d.Seconds() * 1000)
}

// Burst returns how many bytes may be sent at once, beside a packet.
func (l *RateLimit) Burst() int { return l.Within(l.slack) }

func (l *RateLimit) next() monotime.Time { return l.free.Add(-l.slack) }

// Holds reports whether the next packet is to wait until Due.
func (l *RateLimit) Holds(now monotime.Time) bool {
	l.waits = l.kbps != 0 && now.Before(l.next())
	return l.waits
}

// Held reports whether Holds has held a packet, and no time-out came since.
func (l *RateLimit) Held() bool { return l.waits }

// Due returns when the packet that is held may be sent, Never if there is none.
func (l *RateLimit) Due() monotime.Time {
	if !l.waits {
		return monotime.Never
	}
	return l.next()
}

// HandleTimeout lets the packet go that was held.
func (l *RateLimit) HandleTimeout(now monotime.Time) {
	l.waits = l.waits && now.Before(l.next())
}

// Sent notes n bytes sent.
func (l *RateLimit) Sent(now monotime.Time, n int) {
	if l.kbps != 0 {
		l.free = max(l.free, now).Add(l.time(n))
	}
}
