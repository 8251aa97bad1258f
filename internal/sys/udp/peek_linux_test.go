// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"errors"
	"net/netip"
	"testing"
)

func TestPeekLeavesTheMessage(t *testing.T) {
	forKinds(t, func(t *testing.T, addr netip.Addr, o Options) {
		from, to := listen(t, addr, o), listen(t, addr, o)
		b := NewRxBatch()
		if o.Portable {
			if _, err := to.Peek(b); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("peek: %v", err)
			}
			return
		}
		if n, err := to.Peek(b); n != 0 || err != nil {
			t.Fatalf("peek at nothing: %d, %v", n, err)
		}
		for _, text := range []string{"first", "second"} {
			if n, err := from.WriteBatch([]Datagrams{{Dst: to.LocalAddr(), Iov: [][]byte{[]byte(text)}}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		p, ready := poller(t, to), make([]uint64, 1)
		for _, want := range []string{"first", "second"} {
			for range 2 { // the second look finds the same
				if n, err := p.Wait(patience, ready); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				if n, err := to.Peek(b); n != 1 || err != nil || string(b.Message(0).Data) != want || b.Message(0).Src != from.LocalAddr() {
					t.Fatalf("peek: %d, %v, %q, not %q", n, err, b.Message(0).Data, want)
				}
			}
			if err := to.Take(b); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := to.Peek(b); n != 0 || err != nil {
			t.Errorf("peek after all was taken: %d, %v", n, err)
		}
		if c := to.Counters(); c.RcvdDatagrams != 2 || c.RcvdBytes != uint64(len("first")+len("second")) {
			t.Errorf("counted: %+v", c)
		}
	})
}
