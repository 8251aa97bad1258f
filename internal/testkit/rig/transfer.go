// SPDX-License-Identifier: BSD-2-Clause

package rig

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/internal/queue"
)

// Sizes of messages: none, around the limits of inline data and of copying, around a segment of
// loopback, and the largest.
var Sizes = []int{0, 1, 2, 511, 513, 4096, 8191, 65000, 65483, 65536, 200000, 1 << 20, 8 << 20}

// BigBuffer holds any of Sizes.
const BigBuffer = 8 << 20

// Pattern writes a pattern to the first n bytes. It takes the lock for the race
// detector, which knows nothing of the order that the network makes.
func (e *Endpoint) Pattern(n int, seed byte) {
	e.Lock()
	defer e.Unlock()
	p := e.Buf[:n]
	for i := range min(n, 1021) { // no divisor of any segment's size
		p[i] = byte(i*31) + byte(i>>8) + seed
	}
	for k := 1021; k < n; k *= 2 {
		copy(p[k:], p[:k])
	}
}

// Transfer carries n bytes by SEND, WRITE and READ, and checks that they came.
func Transfer(t *testing.T, from, to *Endpoint, n int, seed byte) {
	t.Helper()
	check := func(what string) {
		t.Helper()
		from.Lock()
		defer from.Unlock()
		to.Lock()
		defer to.Unlock()
		if !bytes.Equal(from.Buf[:n], to.Buf[:n]) {
			t.Fatalf("%s of %d bytes: memory differs", what, n)
		}
	}
	from.Pattern(n, seed)
	to.Recv()
	from.Send(n)
	from.Want(ib.WCSend, ib.WCSuccess)
	if wc := to.Want(ib.WCRecv, ib.WCSuccess); int(wc.ByteLen) != n {
		t.Fatalf("%d bytes arrived of %d", wc.ByteLen, n)
	}
	check("SEND")

	from.Pattern(n, seed+1)
	from.Request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: uint32(n), RKey: to.Region.RKey()})
	from.Want(ib.WCRDMAWrite, ib.WCSuccess)
	to.Recv()
	from.Send(0) // orders the WRITE
	from.Want(ib.WCSend, ib.WCSuccess)
	to.Want(ib.WCRecv, ib.WCSuccess)
	check("WRITE")

	to.Pattern(n, seed+2)
	from.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: uint32(n), RKey: to.Region.RKey()})
	from.Want(ib.WCRDMARead, ib.WCSuccess)
	check("READ")
}
