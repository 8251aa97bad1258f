// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net/netip"
	"testing"

	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// dropper drops its port as it takes datagrams, as the end of an association does.
type dropper struct {
	p    *Port
	open bool // the socket was open after that
}

func (d *dropper) take(monotime.Time, []udp.Message) {
	d.p.drop()
	select {
	case <-d.p.released:
	default:
		d.open = true
	}
}

func (d *dropper) refused(monotime.Time, netip.AddrPort) {}

// A port's socket is open while a thread takes frames, and no longer.
func TestPortStaysWhileFramesAreTaken(t *testing.T) {
	n := trpNode(t, policy.Nap, engine.Options{})
	p, err := Of(n.Eng).Bind(netip.AddrPortFrom(loopback4, 0))
	if err != nil {
		t.Fatal(err)
	}
	d := &dropper{p: p}
	p.give(d)
	p.TakeFrames(0, nil)
	if !d.open {
		t.Error("the socket is closed under the thread that takes frames")
	}
	p.Close()
	select {
	case <-p.released:
	default:
		t.Error("the socket is open after Close")
	}
}
