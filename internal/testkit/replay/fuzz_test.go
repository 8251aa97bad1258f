// SPDX-License-Identifier: BSD-2-Clause

package replay

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"path/filepath"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/roce/uc"
	"verbena/internal/roce/ud"
	wire "verbena/internal/wire/roce"
)

// victim is a machine in the middle of its work, with the memory that a peer may not touch.
type victim struct {
	machine roce.Machine
	mr      *mem.Region
	all     []byte
	cq      *queue.CQ
}

const (
	guard     = 4096
	open      = 8192 // bytes between the guards
	victimVA  = 0x1000
	victimPSN = ib.PSN(1<<24 - 2)
)

var victimAddr, attacker = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

// Further services for newVictim: the two ends of XRC.
const (
	xrcInitiator = wire.ServiceCNP // has no machine
	xrcTarget    = wire.ServiceXRC
)

// victimSRQ is the number of an XRC target's one shared receive queue.
const victimSRQ ib.SRQN = 0x31

func newVictim(service wire.Service) *victim {
	v := &victim{all: bytes.Repeat([]byte{0xa5}, guard+open+guard), cq: queue.NewCQ(64)}
	seed := uint32(7)
	t := mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	v.mr, _ = t.Register(domain, v.all[guard:guard+open], victimVA,
		allAccess|ib.AccessRelaxedOrdering)
	sq, rq := queue.NewSendQueue(16, 4, 0), queue.NewRecvQueue(16, 4)
	c := roce.Config{QPN: 0x11, PD: domain, Mem: t, SQ: sq, RQ: rq, SendCQ: v.cq, RecvCQ: v.cq, SignalAll: true}
	switch service {
	case wire.ServiceUC:
		v.machine = uc.New(c)
	case wire.ServiceUD:
		from := netip.AddrPortFrom(victimAddr, sourcePort)
		v.machine = ud.New(ud.Config{Config: c, MTU: 1024, Source: func(uint8) netip.AddrPort { return from }})
	case xrcInitiator:
		v.machine = rc.NewXRCSend(c)
	case xrcTarget:
		box := &rc.Inbox{PD: domain, Mem: t, RQ: rq, CQ: v.cq}
		v.machine = rc.NewXRCRecv(c, func(n ib.SRQN) *rc.Inbox {
			if n != victimSRQ {
				return nil
			}
			return box
		})
	default:
		v.machine = rc.New(c)
	}
	path := roce.NewPath(victimAddr, sourcePort, &ib.GRH{DGID: ib.GIDFromAddr(attacker)})
	a := ib.QPAttr{
		PathMTU: ib.MTU256, SQPSN: victimPSN, RQPSN: victimPSN, DestQPN: 0x12, AccessFlags: allAccess,
		MaxRdAtomic: 3, MaxDestRdAtomic: 2, Timeout: 14, RetryCnt: 1, RNRRetry: 1,
	}
	for _, s := range []ib.QPState{ib.QPInit, ib.QPRTR, ib.QPRTS} {
		a.State = s
		mask := ib.QPStateAttr
		if s == ib.QPRTR {
			mask = ^(ib.QPEnSQDAsyncNotify | ib.QPCapAttr)
		}
		v.machine.Modify(0, &a, mask, path)
	}
	for range 4 {
		r, _ := rq.Reserve()
		r.Length, r.SGE = 600, append(r.SGE, ib.SGE{Addr: victimVA, Length: 300, LKey: v.mr.LKey()}, ib.SGE{Addr: victimVA + 4000, Length: 300, LKey: v.mr.LKey()})
		rq.Commit()
	}
	for i, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRSend, ib.WRRDMARead,
		ib.WRAtomicFetchAndAdd, ib.WRRDMAWrite} {
		w, _ := sq.Reserve()
		w.Opcode, w.Length = op, []uint32{600, 600, 1500, 8, 100}[i]
		w.SGE = append(w.SGE, ib.SGE{Addr: victimVA + 1000, Length: w.Length, LKey: v.mr.LKey()})
		w.Dst = attacker
		sq.Commit()
	}
	v.machine.Doorbell(0)
	return v
}

// FuzzMachines plays any packets to a machine at work. It must neither panic
// nor send for ever, and no byte outside its region may change.
//
// Input: service; then packets. Each stands behind a byte that says what to put right in it: bit 0
// the keys and numbers, bit 1 the PSN, bit 2 the address. Bit 3 keeps the PSN near those in use.
// Then come a byte of milliseconds that pass, and two of the packet's length. Packets that hardware
// has sent by RC are a seed, and the same by XRC, and responses in no order.
func FuzzMachines(f *testing.F) {
	files, _ := filepath.Glob("../../../testdata/captures/rxe-op-*.pcap")
	for _, name := range files {
		list, err := Load(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range list {
			in := []byte{byte(c.Service)}
			x := []byte(nil)
			for i := range c.Packets {
				p := c.Packets[i].Packet
				in = appendInput(in, i, p.Raw)
				p.Opcode += wire.XRCSendFirst
				x = appendInput(x, i, append(p.Append(nil), 0, 0, 0, 0))
			}
			f.Add(in)
			if c.Service == wire.ServiceRC {
				f.Add(append([]byte{byte(xrcTarget)}, x...))
				f.Add(append([]byte{byte(xrcInitiator)}, x...))
			}
		}
	}
	f.Add(responsesInNoOrder())
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		v := newVictim(wire.Service(in[0] & 7))
		burst := roce.NewBurst()
		meta := roce.Meta{Src: attacker, Dst: victimAddr, SrcPort: sourcePort}
		now := monotime.Time(0)
		psn := victimPSN
		for in = in[1:]; len(in) > 4; {
			repair, wait, n := in[0], in[1], int(binary.BigEndian.Uint16(in[2:]))
			in = in[4:]
			n = min(n, len(in))
			var p wire.Packet
			m := p.Parse(in[:n])
			in = in[n:]
			if m != wire.WellFormed && m != wire.BadOpcode {
				continue
			}
			if repair&1 != 0 {
				p.XRCETH.SRQ = victimSRQ
				p.RETH.RKey, p.AtomicETH.RKey, p.DETH.QKey, p.PKey = v.mr.RKey(), v.mr.RKey(), 0, ib.DefaultPKey
			}
			if repair&2 != 0 {
				p.PSN = psn
				psn = psn.Add(1)
			}
			if repair&8 != 0 {
				p.PSN = victimPSN.Add(uint32(p.PSN) & 15)
			}
			if repair&4 != 0 {
				p.RETH.VA, p.AtomicETH.VA = victimVA+p.RETH.VA%open, victimVA+p.AtomicETH.VA%open&^7
			}
			now = now.Add(monotime.Duration(wait) * monotime.Millisecond)
			if v.machine.NextTimeout() <= now {
				v.machine.HandleTimeout(now)
			}
			v.machine.HandleInput(now, &p, &meta)
			for k := 0; v.machine.PollOutput(now, burst); k++ {
				if k == 10000 {
					t.Fatal("sends for ever")
				}
				burst.Reset()
			}
		}
		for i, b := range v.all {
			if b != 0xa5 && (i < guard || i >= guard+open) {
				t.Fatalf("byte %d outside the region changed", i-guard)
			}
		}
		if v.cq.Len() > 9 {
			t.Fatalf("%d completions of 9 work requests", v.cq.Len())
		}
	})
}

// responsesInNoOrder is an input of FuzzMachines: responses to the victim's READs, a SACK and an
// acknowledgement.
func responsesInNoOrder() []byte {
	in := []byte{byte(wire.ServiceRC)}
	for i, psn := range []uint32{2, 7, 6, 1, 8, 11, 12, 0, 9, 10, 6, 7} {
		p := wire.Packet{BTH: wire.BTH{Opcode: wire.RCRDMAReadResponseMiddle, PSN: ib.PSN(psn)},
			Payload: bytes.Repeat([]byte{byte(psn)}, 256)}
		switch psn {
		case 2, 11:
			p.Opcode = wire.RCRDMAReadResponseLast
			p.Payload = p.Payload[:map[uint32]int{2: 600 - 2*256, 11: 1500 - 5*256}[psn]]
		case 12:
			p.Opcode, p.Payload = wire.RCAtomicAcknowledge, nil
		case 10:
			p.Opcode, p.Payload = wire.RCAcknowledge, nil
		case 9:
			p.Opcode, p.Payload = wire.SelectiveAcknowledge, []byte{0, 1, 2}
		}
		raw := append(p.Append(nil), 0, 0, 0, 0)
		in = append(in, 8|1, byte(i))
		in = binary.BigEndian.AppendUint16(in, uint16(len(raw)))
		in = append(in, raw...)
	}
	return in
}

// appendInput appends a packet of FuzzMachines, with all put right in it.
func appendInput(in []byte, wait int, raw []byte) []byte {
	in = append(in, 7, byte(wait))
	in = binary.BigEndian.AppendUint16(in, uint16(len(raw)))
	return append(in, raw...)
}
