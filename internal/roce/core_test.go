package roce

import (
	"testing"

	"verbena/ib"
	wire "verbena/internal/wire/roce"
)

// Every pair of states, as figure 124 of the specification draws them.
func TestTransitions(t *testing.T) {
	arrows := map[[2]ib.QPState]bool{
		{ib.QPReset, ib.QPInit}: true, {ib.QPInit, ib.QPRTR}: true, {ib.QPRTR, ib.QPRTS}: true,
		{ib.QPInit, ib.QPInit}: true, {ib.QPRTS, ib.QPRTS}: true, {ib.QPSQD, ib.QPSQD}: true,
		{ib.QPRTS, ib.QPSQD}: true, {ib.QPSQD, ib.QPRTS}: true,
		{ib.QPRTS, ib.QPSQE}: true, {ib.QPSQD, ib.QPSQE}: true, {ib.QPSQE, ib.QPRTS}: true,
	}
	for from := ib.QPReset; from <= ib.QPErr; from++ {
		for to := ib.QPReset; to <= ib.QPErr; to++ {
			want := arrows[[2]ib.QPState{from, to}] || to == ib.QPReset || to == ib.QPErr
			if got := MayFollow(from, to); got != want {
				t.Errorf("%v to %v: %v, want %v", from, to, got, want)
			}
		}
	}
}

// The opcode of every packet of every message agrees with the opcode table.
func TestDataOpcode(t *testing.T) {
	for _, service := range []wire.Opcode{wire.RCSendFirst, wire.UCSendFirst} {
		for _, o := range []ib.WROpcode{ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm} {
			if o == ib.WRSendWithInv && service != wire.RCSendFirst {
				continue
			}
			for place := range 4 {
				first, last := place&1 != 0, place&2 != 0
				op := DataOpcode(service, o, first, last)
				i := op.Info()
				write := o == ib.WRRDMAWrite || o == ib.WRRDMAWriteWithImm
				imm := o == ib.WRSendWithImm || o == ib.WRRDMAWriteWithImm
				switch {
				case !i.Valid, i.Service != service.Info().Service, i.First != first, i.Last != last, IsWrite(op) != write,
					i.HasImm != (imm && last), i.HasIETH != (o == ib.WRSendWithInv && last), i.HasRETH != (write && first):
					t.Errorf("%v first %v last %v: %v", o, first, last, op)
				}
			}
		}
	}
	if op := DataOpcode(wire.RCSendFirst, ib.WRAtomicWrite, true, true); op != wire.RCAtomicWrite {
		t.Error(op)
	}
}

// Each counter has a name of its own.
func TestCounterNames(t *testing.T) {
	seen := map[string]bool{}
	for c := Counter(0); c < NumCounters; c++ {
		if n := c.String(); n == "" || seen[n] {
			t.Errorf("counter %d is called %q", c, n)
		} else {
			seen[n] = true
		}
	}
}
