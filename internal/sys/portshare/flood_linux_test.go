// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFloodDoesNotKeepAReader: Read returns though there is always one datagram more. The member's
// own goroutine reads all of them.
func TestFloodDoesNotKeepAReader(t *testing.T) {
	w, err := newWatch()
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := newLink(w, fds[0])
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLink(w, fds[1])
	if err != nil {
		t.Fatal(err)
	}
	send := func() {
		if err := keeper.send(frame{Kind: kindMAD}); err != nil {
			t.Error(err)
		}
	}
	const all = 10 * maxFrames
	var got atomic.Int32
	m := &member{vault: -1, role: following, link: l, opt: Options{OnMAD: func(MAD) {
		switch n := got.Add(1); {
		case n < all:
			send()
		case n == all:
			l.close()
		}
	}}}
	send()
	for want := int32(maxFrames); want <= 2*maxFrames; want += maxFrames {
		if more := m.Read(); !more || got.Load() != want {
			t.Fatalf("%d datagrams were read, want %d; more: %v", got.Load(), want, more)
		}
	}
	m.follow(l)
	if got.Load() != all {
		t.Errorf("%d datagrams were read, want %d", got.Load(), all)
	}
	keeper.close()
	w.close()
}
