// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/net/bpf"

	"verbena/ib"
)

// kept runs a filter on a UDP payload.
func kept(t *testing.T, prog []bpf.Instruction, payload []byte) bool {
	t.Helper()
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	n, err := vm.Run(append(make([]byte, udpHeaderBytes), payload...))
	if err != nil {
		t.Fatal(err)
	}
	return n != 0
}

// TestFilterKeepsWhatTheSetHas has sets from empty to full, and looks at each number
// that is in one and at many others.
func TestFilterKeepsWhatTheSetHas(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 2, 60, 500, 1 << numberBits, 8 << numberBits} {
		var n Numbers
		var in []ib.QPN
		for range size {
			q := ib.QPN(r.Uint32N(1 << 24))
			n.Add(q)
			in = append(in, q)
		}
		prog := n.filter()
		if len(prog) > 202 {
			t.Errorf("%d numbers: %d instructions", size, len(prog))
		}
		for i, q := range in {
			if i < 300 && !kept(t, prog, datagramBytes(q)) {
				t.Fatalf("%d numbers: %v is dropped", size, q)
			}
		}
		for range 300 {
			q := ib.QPN(r.Uint32N(1 << 24))
			if got := kept(t, prog, datagramBytes(q)); got != n.Has(q) {
				t.Fatalf("%d numbers: %v kept %t, in the set %t", size, q, got, n.Has(q))
			}
		}
		if kept(t, prog, make([]byte, 7)) {
			t.Errorf("%d numbers: a datagram without a number is kept", size)
		}
	}
}

func TestManagementFilter(t *testing.T) {
	mad := func(q ib.QPN, opcode byte, bytes int) []byte {
		b := make([]byte, bytes)
		copy(b, datagramBytes(q))
		b[0] = opcode
		return b
	}
	any, strict := management(&MADRules{}), management(&MADRules{MADBytes: 280, MADWords: []Word{{Mask: 0xff << 24, Value: 100 << 24}, {At: 272}}})
	for _, c := range []struct {
		what       string
		payload    []byte
		any, shape bool
	}{
		{"a MAD", mad(ib.QP1, 100, 280), true, true},
		{"two that were joined", mad(ib.QP1, 100, 560), true, true},
		{"too long", mad(ib.QP1, 100, 284), true, false},
		{"another opcode", mad(ib.QP1, 4, 280), true, false},
		{"for QP0", mad(0, 100, 280), false, false},
		{"for all queue pairs of a group", mad(ib.QPMulticast, 100, 280), false, false},
		{"nothing", nil, false, false},
	} {
		if got := kept(t, any, c.payload); got != c.any {
			t.Errorf("%s: kept %t, want %t", c.what, got, c.any)
		}
		if got := kept(t, strict, c.payload); got != c.shape {
			t.Errorf("%s, where MADs have their form: kept %t, want %t", c.what, got, c.shape)
		}
	}
}
