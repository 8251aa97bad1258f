// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// connected brings up one connection and returns its ends.
func (w *world) connected() (client, server *conn) {
	w.t.Helper()
	id := w.connect()
	w.run(monotime.Second)
	client, server = w.client.conns[id], w.server.conns[w.accepted()]
	if client.state != Established || server.state != Established {
		w.t.Fatalf("%v and %v", client.state, server.state)
	}
	w.client.count, w.server.count = Counters{}, Counters{}
	return client, server
}

// A stranger that has seen a queue pair's number, or guessed it, sends REQs in the peer's name. The
// peer is asked, and the connection lives.
func TestForgedREQWithTheQPNOfALiveConnection(t *testing.T) {
	w := newWorld(t)
	w.listen()
	client, server := w.connected()
	req := w.forgedREQ(99)
	req.LocalQPN = client.localQPN
	w.sent = nil
	for range 3 {
		mad := encode(cm.AttrREQ, 1, &req)
		w.server.HandleMAD(w.now, Path{Local: serverAddr, Remote: clientAddr}, mad[:])
		w.run(20 * monotime.Second)
	}
	w.wantSent(cm.AttrREJ, cm.AttrDREQ, cm.AttrREJ, cm.AttrDREQ, cm.AttrREJ, cm.AttrDREQ)
	w.server.wantCount(StaleRejected, 3)
	w.server.wantCount(Probed, 3)
	w.client.wantCount(BadQPN, 3)
	w.server.wantState(server.id, Established)
	w.client.wantState(client.id, Established)
	w.server.wantEvents(EventRequest, EventEstablished)
	w.client.wantEvents(EventReply)
}

// The active end is as safe: the stranger names the queue pair of the server.
func TestForgedREQToTheActiveEnd(t *testing.T) {
	w := newWorld(t)
	w.listen()
	client, server := w.connected()
	_, err := w.client.Listen(rping, clientAddr, 0)
	w.client.must(err)
	req := w.forgedREQ(99)
	req.LocalCAGUID, req.LocalQPN = w.server.GUID, server.localQPN
	req.Primary.LocalGID, req.Primary.RemoteGID = req.Primary.RemoteGID, req.Primary.LocalGID
	mad := encode(cm.AttrREQ, 1, &req)
	w.client.HandleMAD(w.now, Path{Local: clientAddr, Remote: serverAddr}, mad[:])
	w.run(20 * monotime.Second)
	w.client.wantCount(Probed, 1)
	w.client.wantState(client.id, Established)
	w.server.wantState(server.id, Established)
}

// A DREP that does not answer the probe is of no meaning, before it and after it.
func TestForgedDREPEndsNothing(t *testing.T) {
	w := newWorld(t)
	w.listen()
	client, server := w.connected()
	forge := func(tid uint64) {
		mad := encode(cm.AttrDREP, tid, &cm.DREP{LocalCommID: client.localID, RemoteCommID: server.localID})
		w.server.HandleMAD(w.now, Path{Local: serverAddr, Remote: clientAddr}, mad[:])
	}
	forge(0)
	w.server.doubt(server)
	forge(0)
	forge(server.probe + 1)
	w.server.wantCount(IgnoredState, 3)
	w.server.wantState(server.id, Established)
	forge(server.probe)
	w.server.wantState(server.id, Timewait)
	forge(server.probe)
	w.server.wantCount(IgnoredState, 4)
}

// forgedREQ is a REQ that the client has not sent.
func (w *world) forgedREQ(commID uint32) cm.REQ {
	p := connectParams()
	return cm.REQ{
		LocalCommID: commID, ServiceID: p.ServiceID, LocalCAGUID: w.client.GUID, LocalQPN: 0x1000 + p.QPN, Service: p.Service, PKey: 0xffff,
		PathMTU: p.PathMTU, StartingPSN: p.PSN, RemoteResponseTimeout: 31, LocalResponseTimeout: 31, MaxCMRetries: 15,
		Primary: cm.Path{LocalGID: gidOf(clientAddr), RemoteGID: gidOf(serverAddr), ACKTimeout: 31},
	}
}
