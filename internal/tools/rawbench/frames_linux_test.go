// SPDX-License-Identifier: BSD-2-Clause

package rawbench

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/testkit/netns"
)

// Frames carry each message once, whether the server returns it or counts it.
func TestFrames(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	n.AddWire("xa", "xb")
	n.Add("xa", "10.9.0.1/24")
	n.Add("xb", "10.9.0.2/24")
	n.Up("lo", "xa", "xb")
	open := func(local, remote, far string) *Frames {
		t.Helper()
		peer, err := net.InterfaceByName(far)
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenFrames(netip.MustParseAddr(local), netip.MustParseAddr(remote), peer.HardwareAddr)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, errors.ErrUnsupported) {
			t.Skipf("needs CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and a kernel with AF_XDP: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		return f
	}
	server, client := open("10.9.0.1", "10.9.0.2", "xb"), open("10.9.0.2", "10.9.0.1", "xa")
	serve := func(f func() error) (ended chan error) {
		ended = make(chan error, 1)
		go func() { ended <- f() }()
		return ended
	}
	const messages, window = 3000, 64

	ended := serve(func() error { return server.Echo(FramePing) })
	r, err := client.Ping(FramePing, messages)
	if len(r.OneWay) != messages || r.Percentile(1) <= 0 || err != nil || <-ended != nil {
		t.Errorf("%d answers, the fastest after %v; %v", len(r.OneWay), r.Percentile(1), err)
	}
	ended = serve(server.Count)
	if took, err := client.Flood(FrameWrite, messages, window, false); took <= 0 || err != nil || <-ended != nil {
		t.Errorf("counted: %v, %v", took, err)
	}
	ended = serve(func() error { return server.Echo(FrameWrite) })
	if took, err := client.Flood(FrameWrite, messages, window, true); took <= 0 || err != nil || <-ended != nil {
		t.Errorf("returned: %v, %v", took, err)
	}
}
