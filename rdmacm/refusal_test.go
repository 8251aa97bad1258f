// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"verbena/internal/cm/ibcm"
	"verbena/internal/cm/iwcm"
	"verbena/internal/testkit/loopback"
	"verbena/internal/wire/cm"
	wire "verbena/internal/wire/iwarp"
	"verbena/verbs"
)

// logged returns the lines that this process logs until the test ends.
func logged(t *testing.T) *logLines {
	t.Helper()
	l := new(logLines)
	dev, err := verbs.Open(loopback.Device(t), verbs.WithLogger(slog.New(slog.NewTextHandler(l, nil))))
	check(t, err)
	t.Cleanup(func() {
		check(t, dev.Close())
		if t.Failed() {
			t.Log(l.text.String())
		}
	})
	return l
}

// wantRefused waits for the line of a refused request. It names the device, both addresses and the
// reason.
func (l *logLines) wantRefused(t *testing.T, local netip.AddrPort, words ...string) {
	t.Helper()
	words = append(words, "level=WARN", `msg="connection event"`, `type="request refused"`, " local="+local.String(), " peer=", " device=")
	until(t, "a line has "+strings.Join(words, ", "), func() bool { return l.has(words...) })
}

// A listener that is closed refuses requests that its application has not fetched.
func TestRefusedRequestOfEveryKindIsLogged(t *testing.T) {
	for _, k := range append([]kindUnderTest{{Kind: RoCE, addrs: []string{"127.0.0.1"}}}, kinds...) {
		t.Run(string(k.Kind), func(t *testing.T) {
			if k.join != nil {
				k.join(t)
			}
			lines := logged(t)
			f := newFabric(t)
			a, b := f.process(1), f.process(2)
			l := b.listeningOf(k.Kind, k.at(), 0)
			client := a.resolvedOf(k.Kind, l.LocalAddr())
			check(t, client.Connect(&someParam))
			until(t, "the request has come", func() bool { return lines.has("RDMA_CM_EVENT_CONNECT_REQUEST") })
			check(t, l.Destroy())
			client.want(Rejected)
			lines.wantRefused(t, l.LocalAddr(), `reason="the listener was closed"`)

			if k.silent { // the system answers for a port without a listener
				return
			}
			again := a.resolvedOf(k.Kind, l.LocalAddr())
			check(t, again.Connect(&someParam))
			again.want(Rejected)
			if k.Kind != IWARP {
				lines.wantRefused(t, l.LocalAddr(), `reason="nobody listens"`, " peer_qpn=0x")
			}
		})
	}
}

// A request that the application has fetched, and destroys, is refused by it.
func TestDestroyedRequestIsLogged(t *testing.T) {
	lines := logged(t)
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listening(TCP, loopback4)
	client := a.resolvedOf(RoCE, l.LocalAddr())
	check(t, client.Connect(&someParam))
	check(t, l.want(ConnectRequest).ID.Destroy())
	client.want(Rejected)
	if at := l.LocalAddr().String(); !lines.has("level=INFO", "type=rdma_reject", " device=", " local="+at) || lines.has("request refused") {
		t.Error("the application's refusal has no line, or the wrong one")
	}
}

func TestRefusedDatagramServiceIsLogged(t *testing.T) {
	lines := logged(t)
	at := netip.AddrPortFrom(loopback4, 9)
	client := newFabric(t).process(1).resolved(UDP, at)
	check(t, client.Connect(&ConnParam{}))
	client.want(Unreachable)
	lines.wantRefused(t, at, `reason="nobody listens"`)
}

// Streams that bring no request are lines, with the peer's port.
func TestRefusedStreamsAreLogged(t *testing.T) {
	lines := logged(t)
	b := newFabric(t).process(2)
	l := b.listeningOf(IWARP, loopback4, 0)
	for input, why := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n":                       "no MPA request, or bytes behind it",
		string(wire.MPAFrame{Revision: 9}.Append(nil)): "a revision of MPA that is not spoken",
	} {
		c := tcpDial(t, l.LocalAddr())
		_, err := c.Write([]byte(input))
		check(t, err)
		ended(t, c)
		lines.wantRefused(t, l.LocalAddr(), " peer="+c.LocalAddr().String(), why)
	}
	gone := tcpDial(t, l.LocalAddr()) // asks nothing, and ends
	check(t, gone.Close())
	silent := tcpDial(t, l.LocalAddr())
	until(t, "both were taken, and one has gone", func() bool {
		if b.counted(iwcm.Taken) < 4 {
			return false
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.iw.streams) == 1
	})
	check(t, l.Destroy())
	ended(t, silent)
	lines.wantRefused(t, l.LocalAddr(), " peer="+silent.LocalAddr().String(), "the listener was closed")
	if lines.has("request refused", " peer="+gone.LocalAddr().String()) {
		t.Error("a peer that has gone was refused")
	}
}

func TestRefusedDatagramsAreLogged(t *testing.T) {
	lines := logged(t)
	l := newFabric(t).process(2).listeningOf(TRP, loopback4, 0)
	c, err := net.Dial("udp", l.LocalAddr().String())
	check(t, err)
	defer c.Close()
	_, err = c.Write([]byte("?"))
	check(t, err)
	lines.wantRefused(t, l.LocalAddr(), " peer="+c.LocalAddr().String(), `reason="no datagram of TRP: too_short"`)
}

// Strangers fill no log: they may send any number of requests.
func TestLinesOfRefusalsAreBounded(t *testing.T) {
	lines := logged(t)
	m := newFabric(t).process(1).ib
	for range 100 * maxRefusals {
		m.m.mu.Lock()
		m.agent.Refused(ibcm.Refusal{Reason: cm.RejInvalidServiceID})
		m.m.mu.Unlock()
		m.request(ibcm.Event{Kind: ibcm.EventRequest}) // of a listener that is no more
	}
	m.m.logRefusals()
	m.m.logRefusals() // nothing twice
	count := func() int {
		lines.mu.Lock()
		defer lines.mu.Unlock()
		return bytes.Count(lines.text.Bytes(), []byte("request refused"))
	}
	until(t, "the manager's goroutine has written what it took", func() bool { return count() >= maxRefusals })
	// the clock may have struck
	if n := count(); n > 2*maxRefusals {
		t.Errorf("%d lines for %d requests", n, 200*maxRefusals)
	}
}

// Strangers do not keep the manager's goroutine awake either: it is woken for lines only.
func TestRefusalsBeyondTheBoundWakeNobody(t *testing.T) {
	logged(t)
	m := newFabric(t).process(1)
	_ = m.listeningOf(TRP, loopback4, 0)
	m.ib.m.turning.Add(1) // kick rings no bell
	defer m.ib.m.turning.Add(-1)
	until(t, "a second has more refusals than lines", func() bool {
		for range maxRefusals {
			m.ib.m.noteRefusal(refusal{kind: TRP, why: nobodyListens})
		}
		m.ib.m.due.Store(false)
		m.ib.m.noteRefusal(refusal{kind: TRP, why: nobodyListens})
		return !m.ib.m.due.Load()
	})
}
