// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"testing"

	"verbena/ib"
	wire "verbena/internal/wire/roce"
)

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
	for c, n := range CounterNames() {
		if n == "" || seen[n] {
			t.Errorf("counter %d is called %q", c, n)
		}
		seen[n] = true
	}
}
