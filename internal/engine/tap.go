// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"fmt"
	"net/netip"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/tcp"
	"verbena/internal/sys/udp"
)

// Identify finds the IPv4 identification of a received datagram; index is its place in a
// burst.
type Identify func(src netip.AddrPort, dst netip.Addr, b []byte, index uint16) uint16

// Tap puts faults and capture before a socket where they are asked for. identify may be nil.
func (e *Engine) Tap(s *udp.Socket, identify Identify) faultcap.Socket {
	if e.faults.None() && e.capture == nil {
		return s
	}
	t := faultcap.New(s, faultcap.Options{Faults: e.faults, Stream: e.streams.Add(1),
		Capture: e.capture, Identify: identify})
	t.Drive()
	return t
}

// Untap ends a tap; its socket is closed by its owner.
func Untap(s faultcap.Socket) {
	if t, ok := s.(*faultcap.Tap); ok {
		t.Detach()
	}
}

// TapStream is Tap for a TCP connection.
func (e *Engine) TapStream(c *tcp.Conn, dialled bool) faultcap.Conn {
	if e.faults.None() && e.capture == nil {
		return c
	}
	return faultcap.NewStream(c, dialled, e.faults, e.streams.Add(1), e.capture)
}

// Capture takes every packet sent and received; nil is none.
func (e *Engine) Capture() *faultcap.Capture { return e.capture }

// Tapped reports whether faults are injected or packets captured: all of them go through
// sockets then.
func (e *Engine) Tapped() bool { return !e.faults.None() || e.capture != nil }

// Comment returns the comment of a queue pair's next packet in a capture, empty if there is no news
// of its path.
func Comment(now monotime.Time, l *congestion.Log, q ib.QPN, p congestion.Path) string {
	if !l.Add(now, p) {
		return ""
	}
	text, _ := p.AppendText(fmt.Appendf(nil, "qpn=%#06x ", uint32(q)))
	return string(text)
}

// BurstsPerWrite is the number of bursts that one system call carries. A window of small messages
// goes out in one call, and the peer gets to work while the rest is built.
const BurstsPerWrite = 4

// WriteAll writes bursts to a socket. Datagrams that the system does not take within writeTimeout
// are lost, as on any network.
func WriteAll(sock faultcap.Socket, out []udp.Datagrams) {
	for len(out) > 0 {
		k, err := sock.WriteBatch(out)
		if out = out[k:]; err != nil || len(out) == 0 || sock.WaitWritable(writeTimeout) != nil {
			return
		}
	}
}

const writeTimeout = 10 * monotime.Millisecond
