// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/roce"
	"verbena/internal/sys/portshare"
	wire "verbena/internal/wire/roce"
)

// Keep is the keeper of port 4791 for the processes that meet in dir: portshare.Keep. It
// needs no engine. attach is xdp.Attach.
func Keep(dir string, attach portshare.Attach) error {
	return portshare.Keep(dir, rules(), attach)
}

// rules returns every keeper's handling of management datagrams.
func rules() portshare.MADRules {
	return portshare.MADRules{Route: route, Overlap: keysOverlap, Refuse: new(madRefuser).refuse,
		MADBytes: madDatagramBytes, MADWords: madWords}
}

// madRefuser answers management datagrams for nobody, so that their senders need not wait for
// their time-outs.
type madRefuser struct {
	pkt     wire.Packet
	refuser ibcm.Refuser
	answer  ibcm.Datagram
}

// refuse implements portshare.MADRules.Refuse.
func (s *madRefuser) refuse(m portshare.MAD, answer []byte) []byte {
	p := &s.pkt
	if p.Parse(m.Payload) != wire.WellFormed || p.Opcode != wire.UDSendOnly ||
		len(p.Payload) != madBytes || p.DETH.QKey != ib.QKeyGSI {
		return nil
	}
	pseudo := wire.NewPseudo(m.Src.Addr(), m.Dst, m.Src.Port(), roce.UDPPort)
	if _, ok := pseudo.Verify(m.Payload, 0); !ok ||
		!s.refuser.Refuse(ibcm.Path{Local: m.Dst, Remote: m.Src.Addr()}, p.Payload, &s.answer) {
		return nil
	}
	pseudo = wire.NewPseudo(m.Dst.WithZone(""), m.Src.Addr().WithZone(""), roce.UDPPort,
		roce.UDPPort)
	return appendMAD(answer, &pseudo, s.answer.MAD[:])
}
