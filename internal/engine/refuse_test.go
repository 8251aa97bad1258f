package engine

import (
	"testing"

	"verbena/internal/cm/ibcm"
	"verbena/internal/osio/share"
	"verbena/internal/roce"
	"verbena/internal/wire/cm"
)

// A DREQ for a connection that nobody here knows is answered, whichever process
// had it: the peer would ask for a minute.
func TestDREQForNobodyIsAnswered(t *testing.T) {
	n := startNode(t, defaultBackoff, Options{Dir: t.TempDir()})
	peer := startNode(t, defaultBackoff, Options{Solo: true})
	answers := make(chan ibcm.MAD, 1)
	peer.eng.OnMAD(func(_ *roce.Meta, mad []byte) { answers <- ibcm.MAD(mad) })
	own := uint32(n.eng.Slot())
	for name, slot := range map[string]uint32{"this process's": own, "a dead one's": own%(share.Slots-1) + 1, "none's": 0} {
		id := slot<<(32-ibcm.SlotBits) | 7
		dreq := cm.DREQ{LocalCommID: 5, RemoteCommID: id}
		if err := peer.eng.SendMAD(peer.addr, n.addr, dreq.Append(cm.NewHeader(cm.AttrDREQ, 9).Append(nil))); err != nil {
			t.Fatal(err)
		}
		var mad ibcm.MAD
		until(t, "the answer for "+name, func() bool {
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
