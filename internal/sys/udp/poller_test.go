// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"net/netip"
	"testing"

	"verbena/internal/monotime"
)

func TestPollerReportsUntilRead(t *testing.T) {
	forKinds(t, func(t *testing.T, addr netip.Addr, o Options) {
		rx, tx := listen(t, addr, o), listen(t, addr, o)
		p := poller(t)
		const id = 7<<32 | 5 // wider than the 32 bits an epoll event's fd field has
		if err := p.Add(rx, id); err != nil {
			t.Fatal(err)
		}
		writeAll(t, tx, Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{[]byte("x")}})
		for range 2 {
			if got := waitReady(t, p); got != id {
				t.Fatalf("ready socket has id %#x, want %#x", got, id)
			}
		}
		if n, err := rx.ReadBatch(NewRxBatch()); n != 1 || err != nil {
			t.Fatalf("read %d messages, %v", n, err)
		}
		ready := make([]uint64, 4)
		p.Wait(0, ready) // a wake-up of the portable kind may be left over
		if n, err := p.Wait(0, ready); n != 0 || err != nil {
			t.Errorf("drained socket: %d ready, %v", n, err)
		}
		if err := p.Remove(rx); err != nil {
			t.Error(err)
		}
	})
}

// waitReady waits until a socket is ready and returns its id.
func waitReady(t *testing.T, p *Poller) uint64 {
	t.Helper()
	ready := make([]uint64, 1)
	for until := monotime.Now().Add(patience); ; {
		n, err := p.Wait(patience, ready)
		if err != nil || until.Before(monotime.Now()) {
			t.Fatalf("no socket became ready: %v", err)
		}
		if n > 0 {
			return ready[0]
		}
	}
}

func TestPollerPauseHidesAndResumeShows(t *testing.T) {
	forKinds(t, func(t *testing.T, addr netip.Addr, o Options) {
		quiet, loud, tx := listen(t, addr, o), listen(t, addr, o), listen(t, addr, o)
		p := poller(t, quiet, loud) // ids 0 and 1
		if err := p.Pause(quiet, 0); err != nil {
			t.Fatal(err)
		}
		x := [][]byte{[]byte("x")}
		writeAll(t, tx, Datagrams{Dst: quiet.LocalAddr(), Iov: x}, Datagrams{Dst: loud.LocalAddr(), Iov: x})
		if got := waitReady(t, p); got != 1 {
			t.Errorf("socket %d is ready, want the one that is not paused", got)
		}
		p.Pause(loud, 1)
		if err := p.Resume(quiet, 0); err != nil {
			t.Fatal(err)
		}
		if got := waitReady(t, p); got != 0 {
			t.Errorf("socket %d is ready, want the resumed one", got)
		}
	})
}

func TestPollerWakeAndTimeout(t *testing.T) {
	p := poller(t)
	ready := make([]uint64, 1)
	p.Wake()
	p.Wake()
	if n, err := p.Wait(-1, ready); n != 0 || err != nil {
		t.Errorf("wait after Wake: %d, %v", n, err)
	}
	returned := make(chan struct{})
	go func() {
		p.Wait(-1, ready)
		close(returned)
	}()
	p.Wake()
	<-returned
	const timeout = 300 * monotime.Microsecond
	from := monotime.Now()
	if n, err := p.Wait(timeout, ready); n != 0 || err != nil || monotime.Now().Sub(from) < timeout {
		t.Errorf("wait returned %d, %v after %v, want nothing after %v", n, err, monotime.Now().Sub(from), timeout)
	}
	if _, err := p.Wait(0, nil); err == nil {
		t.Error("wait without room for a result is not refused")
	}
}
