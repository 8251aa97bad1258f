// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

var udaddy = cm.NewServiceID(cm.PortSpaceUDP, 7174)

func (w *world) resolve() ConnID {
	w.t.Helper()
	id, err := w.client.ResolveSIDR(w.now, SIDRParams{Path: Path{clientAddr, serverAddr}, ServiceID: udaddy, PrivateData: []byte("who")})
	w.client.must(err)
	return id
}

func TestSIDRResolves(t *testing.T) {
	w := newWorld(t)
	_, err := w.server.Listen(udaddy, netip.Addr{}, 0)
	w.server.must(err)
	id := w.resolve()
	w.run(20 * monotime.Second)
	w.wantSent(cm.AttrSIDRREQ, cm.AttrDREQ, cm.AttrDREQ, cm.AttrDREP, cm.AttrSIDRREP)
	w.server.wantEvents(EventSIDRRequest)
	if ev := w.server.events[0]; ev.ServiceID != udaddy || !bytes.HasPrefix(ev.PrivateData, []byte("who\x00")) {
		t.Errorf("request %+v", ev)
	}
	w.client.wantEvents(EventSIDRReply)
	if ev := w.client.events[0]; ev.SIDRStatus != cm.SIDRSuccess || ev.QPN != 0x31 || ev.QKey != 0x01234567 ||
		!bytes.HasPrefix(ev.PrivateData, []byte("hi\x00")) {
		t.Errorf("reply %+v", ev)
	}
	w.client.wantState(id, Closed)
	w.client.Destroy(w.now, id)
	w.server.Destroy(w.now, w.server.events[0].Conn)
	if w.client.Len()+w.server.Len() != 0 {
		t.Error("something is left")
	}
}

func TestSIDRSurvivesLossWithoutASecondRequest(t *testing.T) {
	for lost := range 2 {
		w := newWorld(t)
		w.delays = func(i int, d *Datagram) []monotime.Duration {
			if i == lost {
				return nil
			}
			return []monotime.Duration{hop, 2 * hop}
		}
		_, err := w.server.Listen(udaddy, netip.Addr{}, 0)
		w.server.must(err)
		w.resolve()
		w.run(30 * monotime.Second)
		w.server.wantEvents(EventSIDRRequest)
		w.client.wantEvents(EventSIDRReply)
	}
}

func TestSIDRRefusals(t *testing.T) {
	w := newWorld(t)
	var refused []Refusal
	w.server.Refused = func(r Refusal) { refused = append(refused, r) }
	w.resolve()
	w.run(monotime.Second)
	if want := (Refusal{Path{serverAddr, clientAddr}, udaddy, 0, cm.RejInvalidServiceID}); len(refused) != 1 || refused[0] != want {
		t.Errorf("refused %v, want %v", refused, want)
	}
	if ev := w.client.events[0]; ev.SIDRStatus != cm.SIDRUnsupported || ev.QPN != 0 {
		t.Errorf("no listener: %+v", ev)
	}
	w = newWorld(t)
	_, err := w.server.Listen(udaddy, netip.Addr{}, 0)
	w.server.must(err)
	w.server.on = func(ev Event) { w.server.Destroy(w.now, ev.Conn) }
	w.resolve()
	w.run(monotime.Second)
	if ev := w.client.events[0]; ev.SIDRStatus != cm.SIDRRejected {
		t.Errorf("destroyed: %+v", ev)
	}
	w = newWorld(t)
	_, err = w.server.Listen(udaddy, netip.Addr{}, 0)
	w.server.must(err)
	w.delays = func(_ int, d *Datagram) []monotime.Duration { // a sender that is not in the partition
		if h, data, _ := cm.ParseHeader(d.MAD[:]); h.Attribute == cm.AttrSIDRREQ {
			m, _, _ := cm.ParseSIDRREQ(data)
			m.PKey = 0x8001
			d.MAD = encode(cm.AttrSIDRREQ, h.TransactionID, &m)
		}
		return []monotime.Duration{hop}
	}
	w.resolve()
	w.run(monotime.Second)
	w.wantSent(cm.AttrSIDRREQ, cm.AttrSIDRREP)
	w.client.wantEvents(EventSIDRReply)
	w.server.wantEvents()
	w.server.wantCount(BadPKey, 1)
	if ev := w.client.events[0]; ev.SIDRStatus != cm.SIDRRejected || ev.QPN != 0 || w.server.Len() != 0 {
		t.Errorf("wrong P_Key: %+v, %d connections", ev, w.server.Len())
	}
	w = newWorld(t)
	w.delays = func(int, *Datagram) []monotime.Duration { return nil }
	w.resolve()
	w.run(2 * 60 * monotime.Second)
	w.client.wantEvents(EventUnreachable)
	if !slices.Equal(w.sent, slices.Repeat([]cm.Attribute{cm.AttrSIDRREQ}, 16)) {
		t.Errorf("sent %v", w.sent)
	}
}
