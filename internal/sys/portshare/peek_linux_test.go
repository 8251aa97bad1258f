// SPDX-License-Identifier: BSD-2-Clause

package portshare

import "testing"

// A keeper that dies with a datagram in its hands: it may be a program that ends
// right after it disconnected, and no peer hears of that twice.
func TestDatagramIsNotLostWithItsKeeper(t *testing.T) {
	n := newNetwork(t, 35)
	ps := startMany(t, n.dir, 3)
	keeper, others := keeperOf(t, ps)
	keeper.must("", "socket %v", n.a)
	others[0].must("", "listen %s", deadly)
	others[0].must("", "listen after")
	n.send(t, n.a, datagram(1, 0, deadly), datagram(1, 0, "after"))
	others[0].must(deadly, "mad")
	others[0].must("after", "mad")
	if err := keeper.cmd.Wait(); err == nil {
		t.Error("the keeper lives")
	}
}
