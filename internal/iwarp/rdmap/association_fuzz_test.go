// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"encoding/binary"
	"testing"

	"verbena/ib"
)

// FuzzAssociation feeds an established association any datagrams of its peer. Memory that is not
// granted stays as it is, and held memory is let go. The posted receive completes at most once, and
// in the end it has.
func FuzzAssociation(f *testing.F) {
	f.Add(hexDatagrams(f, "00000000 00000000 0000 4143 00000000 00000000 00000001 00000000 6869"))
	f.Add(hexDatagrams(f, "00000000 00000000 0000 c140 00000001 0000000000010040 6869", "00000001 00000000 4000"))
	f.Add(hexDatagrams(f, "00000001 00000000 0000 4143 00000000 00000000 00000001 00000002 6869", "00000000 00000000 0000 0143 00000000 00000000 00000001 00000000 6869"))
	f.Add(hexDatagrams(f, "00000000 00000000 0000 414a 00000000 00000001 00000001 00000000 00000001 00000009 00000007 0000000000000008"))
	f.Fuzz(func(t *testing.T, in []byte) {
		a, b := associated(t, func(o *options) { o.memory = 1 << 12 })
		closed := bytes.Repeat([]byte{7}, 256) // of another protection domain
		mr, err := b.table.Register(pd+1, closed, base+1<<20, allAccess)
		if err != nil {
			t.Fatal(err)
		}
		b.postRecv(1, b.sge(0, 100))
		for len(in) >= 2 {
			n := min(int(binary.BigEndian.Uint16(in)), len(in)-2)
			b.take(a, in[2:2+n])
			b.pump()
			b.out = nil
			in = in[2+n:]
		}
		b.a.Modify(0, &ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr)
		b.pump()
		if !bytes.Equal(closed, bytes.Repeat([]byte{7}, 256)) || !mr.Idle() {
			t.Fatal("memory of another protection domain was touched")
		}
		b.wantState("in the end", ib.QPErr)
		b.freed()
		if n := len(b.recvs.list); n != 1 {
			t.Fatalf("the receive has %d fates", n)
		}
	})
}

// hexDatagrams returns FuzzAssociation's input: each datagram behind its length.
func hexDatagrams(f *testing.F, list ...string) (out []byte) {
	for _, s := range list {
		b := fromHex(f, s)
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(b))), b...)
	}
	return out
}
