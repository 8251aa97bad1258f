// SPDX-License-Identifier: BSD-2-Clause

package xsk_test

import (
	"strings"
	"testing"

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
