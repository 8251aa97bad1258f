// SPDX-License-Identifier: BSD-2-Clause

package replay

import (
	"bytes"
	"fmt"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/roce"
)

// maxWait bounds the timers fired while a packet is waited for: RNR timers.
const maxWait = 50

// compare takes the next packet of our machine and holds it against want.
func (p *player) compare(want *wire.Packet) error {
	list := &p.responses
	if want.Info.Request {
		list = &p.requests
	}
	for n := 0; len(*list) == 0 && n < maxWait; n++ {
		at := p.machine.NextTimeout()
		if at == monotime.Never {
			break
		}
		p.fire(at)
	}
	if len(*list) == 0 {
		return fmt.Errorf("we sent nothing, recorded is %v PSN=%v (state %v, completions %v)",
			want.Opcode, want.PSN, p.machine.State(), p.wcs)
	}
	got := &(*list)[0]
	err := difference(got, want)
	*list = (*list)[1:]
	return err
}

// difference tells the first field that differs where the specification leaves
// no choice.
func difference(got, want *wire.Packet) error {
	g, w := got.BTH, want.BTH
	g.MigReq, w.MigReq = false, false // rxe sends 0, hardware and we 1
	// reserved bits, which only we set
	g.Selective, g.Overtakes, g.Unawaited, g.AllRETH = false, false, false, false
	if g != w {
		return fmt.Errorf("BTH %+v, recorded %+v", g, w)
	}
	switch {
	case got.DETH != want.DETH:
		return fmt.Errorf("DETH %+v, recorded %+v", got.DETH, want.DETH)
	case got.RETH != want.RETH:
		return fmt.Errorf("RETH %+v, recorded %+v", got.RETH, want.RETH)
	case !equalAtomic(got, want):
		return fmt.Errorf("AtomicETH %+v, recorded %+v", got.AtomicETH, want.AtomicETH)
	case got.AtomicAck != want.AtomicAck:
		return fmt.Errorf("AtomicAckETH %+v, recorded %+v", got.AtomicAck, want.AtomicAck)
	case got.ImmDt != want.ImmDt:
		return fmt.Errorf("ImmDt %+v, recorded %+v", got.ImmDt, want.ImmDt)
	case got.IETH != want.IETH:
		return fmt.Errorf("IETH %+v, recorded %+v", got.IETH, want.IETH)
	case !bytes.Equal(got.Payload, want.Payload):
		return fmt.Errorf("payload of %d bytes differs from the %d recorded", len(got.Payload),
			len(want.Payload))
	}
	return differentAETH(got, want)
}

// equalAtomic compares all but the compare field of fetch-and-add, which has
// no meaning.
func equalAtomic(got, want *wire.Packet) bool {
	g, w := got.AtomicETH, want.AtomicETH
	if got.Opcode == wire.RCFetchAdd {
		g.Compare, w.Compare = 0, 0
	}
	return g == w
}

// differentAETH compares an ACK by its MSN and a NAK by its code: credits are
// ours to give, and the MSN of a NAK says nothing.
func differentAETH(got, want *wire.Packet) error {
	if !want.Info.HasAETH {
		return nil
	}
	g, w := got.AETH, want.AETH
	if g.Syndrome.Kind() != w.Syndrome.Kind() {
		return fmt.Errorf("%v, recorded %v", g.Syndrome, w.Syndrome)
	}
	switch {
	case w.Syndrome.Kind() == wire.KindACK && g.MSN != w.MSN:
		return fmt.Errorf("MSN %d, recorded %d", g.MSN, w.MSN)
	case w.Syndrome.Kind() != wire.KindACK && g.Syndrome != w.Syndrome:
		return fmt.Errorf("%v %#x, recorded %v %#x", g.Syndrome, uint8(g.Syndrome), w.Syndrome,
			uint8(w.Syndrome))
	}
	return nil
}
