// SPDX-License-Identifier: BSD-2-Clause

package xsk_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/xsk"
)

// A kernel that knows no packets of several frames has a pool where each packet fits one. Elsewhere
// the error says what to do.
func TestKernelWithoutJoinedFrames(t *testing.T) {
	for _, mtu := range []int{1500, 3498, 3826, 3827, 9000} {
		t.Run("", func(t *testing.T) {
			xsk.Before66(t)
			n, a, b := wire(t, 1500)
			if n == nil {
				return
			}
			a.pool.Close()
			p, err := xsk.NewPool(a.iface.Index, 1, mtu)
			if mtu > 3826 {
				if err == nil || !strings.Contains(err.Error(), "Linux 6.6") {
					t.Errorf("MTU %d: %v", mtu, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("MTU %d: %v", mtu, err)
			}
			a.pool = p
			defer p.Close()
			send(t, newSender(t, a, b, v4a, a.open(3)), 1, to(5))
		})
	}
}

// The best mode is used that the driver and the kernel have. Zero-copy mode is not lost where a
// driver has no packets of several frames in it, and none is needed.
func TestModeOfAPool(t *testing.T) {
	const several, zero, copies = unix.XDP_USE_SG, unix.XDP_ZEROCOPY, unix.XDP_COPY
	for _, c := range []struct {
		name     string
		refused  []int
		mtu      int
		wantMode int
	}{
		{"all, 1500", nil, 1500, zero | several},
		{"all, 9000", nil, 9000, zero | several},
		{"one frame without copies, 1500", []int{zero | several}, 1500, zero},
		{"one frame without copies, 9000", []int{zero | several}, 9000, copies | several},
		{"copies, 1500", []int{zero}, 1500, copies | several},
		{"copies, 9000", []int{zero}, 9000, copies | several},
		{"copies of one frame, 1500", []int{zero, several}, 1500, copies},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, a, b := wire(t, 1500)
			if n == nil {
				return
			}
			a.pool.Close()
			used := xsk.BindFirst(t, func(mode int) error {
				for _, r := range c.refused {
					if mode&r == r {
						return map[bool]error{true: unix.EINVAL, false: unix.EOPNOTSUPP}[r == several]
					}
				}
				return nil
			})
			p, err := xsk.NewPool(a.iface.Index, 1, c.mtu)
			if err != nil {
				t.Fatal(err)
			}
			a.pool = p
			defer p.Close()
			if want := c.wantMode | unix.XDP_USE_NEED_WAKEUP; *used != want {
				t.Errorf("mode %#x, want %#x", *used, want)
			}
			send(t, newSender(t, a, b, v4a, a.open(3)), 1, to(5))
		})
	}
}

// The kernel lets go of a queue a moment after the last pool was closed.
func TestPoolOfAQueueThatIsReleased(t *testing.T) {
	n, a, b := wire(t, 1500)
	if n == nil {
		return
	}
	a.pool.Close()
	busy := 3
	xsk.BindFirst(t, func(int) error {
		if busy--; busy >= 0 {
			return unix.EBUSY
		}
		return nil
	})
	p, err := xsk.NewPool(a.iface.Index, 1, 1500)
	if err != nil {
		t.Fatal(err)
	}
	a.pool = p
	defer p.Close()
	send(t, newSender(t, a, b, v4a, a.open(3)), 1, to(5))
}
