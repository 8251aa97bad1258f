// SPDX-License-Identifier: BSD-2-Clause

package script

import (
	"bytes"

	"verbena/ib"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// completions is a completion queue of any length.
type completions struct {
	list      []ib.WC
	solicited []bool
}

func (c *completions) Push(wc *ib.WC, solicited bool) bool {
	c.list, c.solicited = append(c.list, *wc), append(c.solicited, solicited)
	return true
}

func (c *completions) pop() (wc ib.WC, solicited bool) {
	wc, solicited = c.list[0], c.solicited[0]
	c.list, c.solicited = c.list[1:], c.solicited[1:]
	return wc, solicited
}

// WantPacket takes the next packet sent, which must be op with psn.
func (s *Script) WantPacket(why string, op wire.Opcode, psn ib.PSN) wire.Packet {
	s.t.Helper()
	if len(s.out) == 0 {
		s.fatalf("%s: want %v PSN=%v, nothing was sent", why, op, psn)
	}
	p := s.out[0]
	s.out = s.out[1:]
	if p.Opcode != op || p.PSN != psn {
		s.fatalf("%s: want %v PSN=%v, got %v", why, op, psn, Format(&p))
	}
	return p
}

// WantAck takes the next packet sent, which must be a positive acknowledgement.
func (s *Script) WantAck(why string, psn ib.PSN, msn ib.MSN) wire.Packet {
	s.t.Helper()
	p := s.WantPacket(why, wire.RCAcknowledge, psn)
	if p.AETH.Syndrome.Kind() != wire.KindACK || p.AETH.MSN != msn {
		s.fatalf("%s: want Ack MSN=%d, got %v", why, msn, Format(&p))
	}
	return p
}

// WantNak takes the next packet sent, which must be a NAK with this syndrome.
func (s *Script) WantNak(why string, psn ib.PSN, code wire.Syndrome) wire.Packet {
	s.t.Helper()
	p := s.WantPacket(why, wire.RCAcknowledge, psn)
	if p.AETH.Syndrome != code {
		s.fatalf("%s: want syndrome %v (%#x), got %v", why, code, uint8(code), Format(&p))
	}
	return p
}

// WantQuiet says that nothing was sent.
func (s *Script) WantQuiet(why string) {
	s.t.Helper()
	if len(s.out) > 0 {
		s.fatalf("%s: want silence, got %v", why, Format(&s.out[0]))
	}
}

// WantIdle says that nothing was sent, completed or raised, and that no timer
// runs.
func (s *Script) WantIdle(why string) {
	s.t.Helper()
	s.WantQuiet(why)
	s.WantNoWC(why)
	if at := s.Machine.NextTimeout(); at != never {
		s.fatalf("%s: a timer is set for %v", why, at)
	}
	if e, ok := s.Machine.PollEvent(); ok {
		s.fatalf("%s: event %v", why, e)
	}
}

const never = 1<<63 - 1

// WantWC takes the next send completion.
func (s *Script) WantWC(why string, wrid uint64, status ib.WCStatus) ib.WC {
	s.t.Helper()
	wc, _ := s.want(why, &s.sends, "send", wrid, status)
	return wc
}

// WantRecvWC takes the next receive completion.
func (s *Script) WantRecvWC(why string, wrid uint64, status ib.WCStatus) ib.WC {
	s.t.Helper()
	wc, _ := s.want(why, &s.recvs, "receive", wrid, status)
	return wc
}

// Completions takes all send completions.
func (s *Script) Completions() []ib.WC {
	all := s.sends.list
	s.sends = completions{}
	return all
}

// WantSolicited takes the next receive completion, which must be a success,
// solicited or not.
func (s *Script) WantSolicited(why string, wrid uint64, solicited bool) {
	s.t.Helper()
	if _, got := s.want(why, &s.recvs, "receive", wrid, ib.WCSuccess); got != solicited {
		s.fatalf("%s: solicited %v", why, got)
	}
}

func (s *Script) want(why string, c *completions, kind string, wrid uint64,
	status ib.WCStatus) (ib.WC, bool) {
	s.t.Helper()
	if len(c.list) == 0 {
		s.fatalf("%s: want %s completion of WR %d (%v), there is none", why, kind, wrid, status)
	}
	wc, solicited := c.pop()
	if wc.WRID != wrid || wc.Status != status {
		s.fatalf("%s: want %s completion of WR %d (%v), got WR %d (%v, %v)", why, kind, wrid,
			status, wc.WRID, wc.Status, wc.VendorErr)
	}
	if wc.QPN != QPN {
		s.fatalf("%s: completion of QP %v", why, wc.QPN)
	}
	s.tell("  WC %s WR %d %v", kind, wrid, status)
	return wc, solicited
}

// WantNoWC says that nothing completed.
func (s *Script) WantNoWC(why string) {
	s.t.Helper()
	for _, c := range []*completions{&s.sends, &s.recvs} {
		if len(c.list) > 0 {
			s.fatalf("%s: WR %d completed (%v, %v)", why, c.list[0].WRID, c.list[0].Status,
				c.list[0].VendorErr)
		}
	}
}

// WantEvent takes the next asynchronous event.
func (s *Script) WantEvent(why string, want ib.EventType) {
	s.t.Helper()
	if e, ok := s.Machine.PollEvent(); !ok || e != want {
		s.fatalf("%s: want event %v, got %v (%v)", why, want, e, ok)
	}
}

// WantState checks the state.
func (s *Script) WantState(why string, want ib.QPState) {
	s.t.Helper()
	if got := s.Machine.State(); got != want {
		s.fatalf("%s: state %v, want %v", why, got, want)
	}
}

// WantCount checks a counter.
func (s *Script) WantCount(why string, c roce.Counter, want uint64) {
	s.t.Helper()
	if got := s.Machine.Counters()[c]; got != want {
		s.fatalf("%s: %v is %d, want %d", why, c, got, want)
	}
}

// WantMemory checks the machine's memory from offset off.
func (s *Script) WantMemory(why string, off int, want []byte) {
	s.t.Helper()
	got := s.Memory[off : off+len(want)]
	if bytes.Equal(got, want) {
		return
	}
	for i := range want {
		if got[i] != want[i] {
			s.fatalf("%s: byte %d of %d is %#x, want %#x", why, i, len(want), got[i], want[i])
		}
	}
}

// Untouched is the value of every byte of the memory before anything writes it.
const Untouched = 0xee

// WantUntouched checks that n bytes from offset off were never written.
func (s *Script) WantUntouched(why string, off, n int) {
	s.t.Helper()
	s.WantMemory(why, off, bytes.Repeat([]byte{Untouched}, n))
}

// Packets takes all packets sent and not yet wanted.
func (s *Script) Packets() []wire.Packet {
	all := s.out
	s.out = nil
	return all
}

// WantDrain takes all packets sent; they must be n.
func (s *Script) WantDrain(why string, n int) []wire.Packet {
	s.t.Helper()
	if len(s.out) != n {
		s.fatalf("%s: %d packets were sent, want %d", why, len(s.out), n)
	}
	return s.Packets()
}
