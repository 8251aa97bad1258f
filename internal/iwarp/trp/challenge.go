// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// A Request comes in one datagram, from an address that may be forged. A client that announces its
// window is challenged: its Request counts when it comes again with a cookie, which the listener
// sends to the address and does not keep. So a forged Request costs nothing, and gets no more bytes
// than it has.
//
// urdma knows no challenge, and answers nothing that comes before the Accept. Requests
// without a window are few at a time, of one address and of all, until something else of
// the client has come. One that the application does not answer is forgotten after
// requestLife: its client has given up.
const (
	// maxUnproven bounds such associations: each costs the application a queue pair and a port.
	maxUnproven = 16
	// maxUnprovenOfOne bounds those that name one address.
	maxUnprovenOfOne = 4

	// cookieLife is the shortest life of a cookie: a round trip, on any network, and the client's
	// time. The longest is twice that.
	cookieLife = 4 * monotime.Second
)

// Challenge asks a client for its Request again, with a cookie.
type Challenge struct {
	to     netip.AddrPort
	cookie wire.PSN
	sent   bool
}

// PollOutput is Conn's.
func (c *Challenge) PollOutput(_ monotime.Time, b *Burst) bool {
	if c.sent {
		return false
	}
	c.sent = true
	b.control(c.to, &wire.Packet{Header: wire.Header{PSN: c.cookie, Opcode: wire.Request}})
	return true
}

func (l *Listener) challenge(now monotime.Time, from netip.AddrPort) *Challenge {
	return &Challenge{to: from, cookie: l.cookie(epoch(now), from)}
}

// proves reports whether a Request has a cookie that its sender was sent lately.
func (l *Listener) proves(now monotime.Time, from netip.AddrPort, cookie wire.PSN) bool {
	e := epoch(now)
	return cookie != 0 && (cookie == l.cookie(e, from) || cookie == l.cookie(e-1, from))
}

func epoch(now monotime.Time) int64 { return int64(now) / int64(cookieLife) }

// cookie returns the cookie for an address in an epoch, never 0.
func (l *Listener) cookie(epoch int64, to netip.AddrPort) wire.PSN {
	b := make([]byte, 0, 40)
	b = binary.BigEndian.AppendUint64(b, l.secret)
	b = binary.BigEndian.AppendUint64(b, uint64(epoch))
	a := to.Addr().As16()
	b = binary.BigEndian.AppendUint16(append(b, a[:]...), to.Port())
	sum := sha256.Sum256(b)
	return wire.PSN(binary.BigEndian.Uint32(sum[:]) | 1)
}

// mayCome reports whether another Request of an unproven client is taken. Half of the backlog is
// for proven ones.
func (l *Listener) mayCome(from netip.Addr) bool {
	ofOne := 0
	for _, k := range l.unproven {
		if k.conn.peer.Addr() == from {
			ofOne++
		}
	}
	return len(l.unproven) < maxUnproven && ofOne < maxUnprovenOfOne && l.waiting < (l.backlog+1)/2
}

// expire forgets unproven Requests that the application has not answered in time.
func (l *Listener) expire(now monotime.Time) {
	for i := len(l.unproven) - 1; i >= 0; i-- {
		if k := l.unproven[i]; k.waiting && now.Sub(k.came) >= requestLife {
			l.count.By[Expired]++
			l.Forget(k.conn.peer)
		}
	}
}

// prove notes that a client exists, or is no more.
func (l *Listener) prove(k *client) {
	if i := slices.Index(l.unproven, k); i >= 0 {
		l.unproven = slices.Delete(l.unproven, i, i+1)
	}
}
