// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/transport/shm"
	wire "verbena/internal/wire/roce"
)

// Of the bursts that wait a reader knows the connections, one for those in a row, and keeps none
// once its turn has ended. Numbers that no connection has, and bursts that are no packets, are left
// out.
func TestAhead(t *testing.T) {
	n := startNode(t, policy.Nap, how{Solo: true})
	a, b := newEndpoint(n, 64), newEndpoint(n, 64)
	to := func(q ib.QPN) []byte {
		p := make([]byte, wire.BTHBytes)
		binary.BigEndian.PutUint32(p[4:], 0xff<<24|uint32(q))
		return p
	}
	r := &ringReader{roce: Of(n.Eng)}
	bursts := [][]byte{to(a.QPN()), to(a.QPN()), to(b.QPN()), {}, to(a.QPN()), to(0xffffff), make([]byte, wire.BTHBytes-1), to(a.QPN())}
	want := []*engine.Conn{a.Conn, nil, b.Conn, nil, a.Conn, nil, nil, nil}
	r.Ahead(bursts)
	if !slices.Equal(r.ahead.conns[:r.ahead.n], want) {
		t.Errorf("connections %v, want %v", r.ahead.conns[:r.ahead.n], want)
	}
	for range bursts {
		r.ahead.next()
	}
	r.ahead.next() // a burst that came meanwhile
	r.EndTurn(0, false)
	if r.ahead.n != 0 || r.ahead.conns != [shm.MaxAhead]*engine.Conn{} {
		t.Errorf("%d connections are kept behind the turn: %v", r.ahead.n, r.ahead.conns)
	}
	most := slices.Repeat([][]byte{to(a.QPN()), to(b.QPN())}, shm.MaxAhead/2)
	if n := testing.AllocsPerRun(10, func() {
		r.Ahead(most)
		for range most {
			r.ahead.next()
		}
		r.ahead.forget()
	}); n != 0 {
		t.Errorf("looking ahead allocates %v times", n)
	}
}
