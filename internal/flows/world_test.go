// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/simnet"
)

// star is a world of n hosts at one switch, over links of 10 Gb/s.
func star(n int, buffer int) (w *World, hosts []netip.Addr) {
	w = NewWorld(1)
	s := w.Net.Switch("switch")
	for i := range n {
		a := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		h := w.Net.Host("", a)
		link := func() *simnet.Link {
			return &simnet.Link{Rate: 1e10, Delay: 2 * monotime.Microsecond, Buffer: buffer}
		}
		w.Net.Connect(h, s, link(), link())
		hosts = append(hosts, a)
	}
	return w, hosts
}

// Flows of all kinds share hosts, both ways. Each ends with its last byte, and not before the
// links could bring it.
func TestFlowsShareHosts(t *testing.T) {
	const bytes = 10<<20 + 777
	w, h := star(3, 0)
	for _, kind := range []Kind{Write, Read, Send, TRP} {
		for i := range h {
			w.Add(Spec{Kind: kind, From: h[i], To: h[(i+1)%len(h)], MTU: ib.MTU4096,
				Message: 1 << 20, Depth: 4, Reads: 16, Bytes: bytes})
		}
	}
	for range 1000 {
		if w.Done() {
			break
		}
		w.Run(monotime.Millisecond)
	}
	for _, f := range w.Flows {
		ideal := monotime.Duration(bytes * 8 / 10)
		if f.Failure() != "" || f.Carried() != bytes || f.Ended < monotime.Time(ideal) {
			t.Errorf("%v: %d bytes, end %v, %s", f.Kind, f.Carried(), f.Ended, f.Failure())
		}
		if p := f.Path(); p.WindowBytes == 0 || p.RTT < 8*monotime.Microsecond {
			t.Errorf("%v: a window of %d, a round trip of %v", f.Kind, p.WindowBytes, p.RTT)
		}
	}
	if !w.Done() || w.Net.Now() > monotime.Time(200*monotime.Millisecond) {
		t.Errorf("done: %v after %v", w.Done(), monotime.Duration(w.Net.Now()))
	}
	before := w.Net.Count.Sent
	w.Run(monotime.Second)
	if sent := w.Net.Count.Sent - before; sent > 100 {
		t.Errorf("%d packets after the end", sent)
	}
}

// All that a link passes on is received, also what comes twice, and no acknowledgement counts.
func TestReceived(t *testing.T) {
	for _, kind := range []Kind{Write, Read, Send} {
		w := NewWorld(1)
		there, back := &simnet.Link{Rate: 1e9, Loss: 20_000}, &simnet.Link{Rate: 1e9, Loss: 20_000}
		a, b := netip.AddrFrom4([4]byte{10, 1}), netip.AddrFrom4([4]byte{10, 2})
		w.Net.Route(a, b, there)
		w.Net.Route(b, a, back)
		f := w.Add(Spec{Kind: kind, From: a, To: b, MTU: ib.MTU1024, Message: 64 << 10, Depth: 16, Reads: 16,
			Bytes: 8 << 20})
		for !w.Done() && w.Net.Now() < monotime.Time(10*monotime.Second) {
			w.Run(monotime.Millisecond)
		}
		w.Run(monotime.Second)
		passed := int64(there.Count.Passed) * 1024
		if kind == Read {
			passed = int64(back.Count.Passed) * 1024
		}
		if f.Received() < f.Carried() || f.Received() > passed || f.Received() < passed*99/100 ||
			f.Carried() != 8<<20 {
			t.Errorf("%v: %d bytes received, %d carried, %d passed on", kind, f.Received(), f.Carried(), passed)
		}
	}
}

// A flow that starts later and finds no path fails, and the others do not.
func TestFlowWithoutAPath(t *testing.T) {
	w, h := star(2, 0)
	w.Net.Host("", netip.AddrFrom4([4]byte{10, 9, 9, 9}))
	spec := Spec{Kind: Write, From: h[0], To: h[1], MTU: ib.MTU1024, Message: 1 << 16, Depth: 4, Reads: 1,
		Bytes: 1 << 20}
	good := w.Add(spec)
	spec.To, spec.Start = netip.AddrFrom4([4]byte{10, 9, 9, 9}), monotime.Time(monotime.Second)
	bad := w.Add(spec)
	w.Run(monotime.Second / 2)
	if w.Done() || bad.Drops != 0 || good.Ended == monotime.Never {
		t.Errorf("%d packets of a flow that has not begun; the other ends %v", bad.Drops, good.Ended)
	}
	for range 100 {
		w.Run(monotime.Second)
	}
	if !w.Done() || bad.Failure() == "" || bad.Drops == 0 || bad.Ended != monotime.Never {
		t.Errorf("done: %v, %q, %d dropped", w.Done(), bad.Failure(), bad.Drops)
	}
}
