// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"math"
	"net/netip"
	"testing"

	"verbena/internal/cm/ibcm"
	"verbena/internal/engine/policy"
	"verbena/internal/roce"
	"verbena/internal/sys/portshare"
	"verbena/internal/testkit/rig"
	"verbena/internal/wire/cm"
	wire "verbena/internal/wire/roce"
)

// A DREQ for a connection that nobody here knows is answered, whichever process
// had it: the peer would ask for a minute.
func TestDREQForNobodyIsAnswered(t *testing.T) {
	n := startNode(t, policy.Nap, how{Dir: t.TempDir()})
	peer := startNode(t, policy.Nap, how{Solo: true})
	answers := make(chan ibcm.MAD, 1)
	Of(peer.Eng).OnMAD(func(_ *roce.Meta, mad []byte) { answers <- ibcm.MAD(mad) })
	own := uint32(n.Eng.Slot())
	for name, slot := range map[string]uint32{"this process's": own, "nobody's": (own + 1) % portshare.Slots} {
		id := slot<<(32-ibcm.SlotBits) | 7
		dreq := cm.DREQ{LocalCommID: 5, RemoteCommID: id}
		if err := Of(peer.Eng).SendMAD(peer.Addr, n.Addr, dreq.Append(cm.NewHeader(cm.AttrDREQ, 9).Append(nil))); err != nil {
			t.Fatal(err)
		}
		var mad ibcm.MAD
		rig.Until(t, "the answer for "+name, func() bool {
			select {
			case mad = <-answers:
				return true
			default:
				return false
			}
		})
		h, data, _ := cm.ParseHeader(mad[:])
		if drep, _, _ := cm.ParseDREP(data); h.Attribute != cm.AttrDREP || h.TransactionID != 9 || drep.LocalCommID != id || drep.RemoteCommID != 5 {
			t.Errorf("%s is answered by %+v %+v", name, h, drep)
		}
	}
}

// Datagrams of strangers to QP1 are read, judged and answered in memory that is there already: in
// the keeper, and in a process that has no connection manager.
func TestRefusingAllocatesNothing(t *testing.T) {
	n := startNode(t, policy.Nap, how{Dir: t.TempDir()})
	if err := Of(n.Eng).Listen(n.Addr); err != nil {
		t.Fatal(err)
	}
	src := netip.AddrPortFrom(n.Addr, 50000)
	pseudo := wire.NewPseudo(src.Addr(), n.Addr, src.Port(), roce.UDPPort)
	mad := func(b []byte) []byte { return append(b, make([]byte, cm.MADSize-len(b))...) }
	keeper, answer := new(madRefuser), make([]byte, 0, 4096)
	answered := map[string]bool{}
	for name, mad := range map[string][]byte{
		"a REQ":     mad((&cm.REQ{LocalQPN: 0x50}).Append(cm.NewHeader(cm.AttrREQ, 9).Append(nil))),
		"a DREQ":    mad((&cm.DREQ{LocalCommID: 5, RemoteCommID: 6}).Append(cm.NewHeader(cm.AttrDREQ, 9).Append(nil))),
		"zeros":     make([]byte, cm.MADSize),
		"too short": {1, 2, 3, 4},
	} {
		m := portshare.MAD{Src: src, Dst: n.Addr, Payload: appendMAD(nil, &pseudo, mad)}
		least := math.Inf(1) // the count is of all goroutines, and that of the port has just begun
		for range 5 {
			least = min(least, testing.AllocsPerRun(20, func() {
				route(m.Payload, m.Dst)
				Of(n.Eng).takeMAD(m)
				if len(keeper.refuse(m, answer[:0])) > 0 {
					answered[name] = true
				}
			}))
		}
		if least != 0 && !raceDetector {
			t.Errorf("%s: %v allocations", name, least)
		}
	}
	if !answered["a DREQ"] || !answered["a REQ"] || answered["too short"] {
		t.Errorf("the keeper answers %v", answered)
	}
	if n.Counter("bad_mad") == 0 {
		t.Error("the short one was not counted")
	}
}
