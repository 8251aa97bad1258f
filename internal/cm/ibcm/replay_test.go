// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"errors"
	"io"
	"net/netip"
	"path/filepath"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

const captures = "../../../testdata/captures"

// captured is a MAD that Linux's rxe sent.
type captured struct {
	src, dst netip.Addr
	header   cm.Header
	mad      MAD
}

func readCapture(t *testing.T, name string) (all []captured) {
	t.Helper()
	eachPacket(t, name, func(d *pcap.Datagram, p *roce.Packet) {
		if p.DestQP != ib.QP1 {
			return
		}
		c := captured{src: d.Src.Addr(), dst: d.Dst.Addr(), mad: MAD(p.Payload)}
		c.header, _, _ = cm.ParseHeader(c.mad[:])
		all = append(all, c)
	})
	return all
}

func eachPacket(t *testing.T, name string, f func(d *pcap.Datagram, p *roce.Packet)) {
	t.Helper()
	r, err := pcapread.Open(filepath.Join(captures, name))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		d, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var p roce.Packet
		if p.Parse(d.Payload) == roce.WellFormed {
			f(&d, &p)
		}
	}
}

// ids maps the communication ids of a capture to those of this run.
type ids map[uint32]uint32

// patch puts this run's ids for the remote id of a captured message.
func (m ids) patch(mad *MAD, attr cm.Attribute) {
	at := cm.HeaderSize + 4
	if attr == cm.AttrSIDRREP {
		at = cm.HeaderSize
	}
	if attr == cm.AttrREQ || attr == cm.AttrSIDRREQ {
		return
	}
	b := mad[at : at+4]
	if ours, ok := m[be32(b)]; ok {
		b[0], b[1], b[2], b[3] = byte(ours>>24), byte(ours>>16), byte(ours>>8), byte(ours)
	}
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// One side of each capture is replayed against an agent that plays the other. The agent sends the
// same messages as rxe, in the same order.
func TestCapturedPeerAgainstTheAgent(t *testing.T) {
	for _, name := range []string{
		"rxe-cmtose.pcap", "rxe-op-reject.pcap", "rxe-nolistener.pcap", "rxe-udaddy.pcap", "rxe-rping.pcap", "rxe-rping6.pcap",
		"rxe61-rping.pcap", "rxe-op-read.pcap", "rxe-mtu4096-rping.pcap",
	} {
		t.Run(name+"/passive", func(t *testing.T) { replayClient(t, readCapture(t, name)) })
		t.Run(name+"/active", func(t *testing.T) { replayServer(t, readCapture(t, name)) })
	}
}

// replay compares each message of the agent with rxe's at that place.
type replay struct {
	*world
	us  *node
	ids ids
}

func (r *replay) wantLike(c captured) {
	r.t.Helper()
	r.drain()
	var d Datagram
	if !r.us.PollOutput(&d) {
		r.t.Fatalf("nothing sent where rxe sent %v", c.header.Attribute)
	}
	h, body, _ := cm.ParseHeader(d.MAD[:])
	if h.Attribute != c.header.Attribute || d.Path != (Path{Local: c.src, Remote: c.dst}) {
		r.t.Fatalf("sent %v by %v where rxe sent %v from %v", h.Attribute, d.Path, c.header.Attribute, c.src)
	}
	r.ids[be32(c.mad[cm.HeaderSize:])] = be32(body)
	theirs := c.mad
	switch h.Attribute {
	case cm.AttrREQ:
		a, _, _ := cm.ParseREQ(body)
		b, _, _ := cm.ParseREQ(theirs[cm.HeaderSize:])
		b.LocalCommID, b.LocalCAGUID, b.Primary.Rate = a.LocalCommID, a.LocalCAGUID, a.Primary.Rate
		if a != b {
			r.t.Errorf("REQ\n%+v\nrxe's\n%+v", a, b)
		}
	case cm.AttrREP:
		a, _, _ := cm.ParseREP(body)
		b, _, _ := cm.ParseREP(theirs[cm.HeaderSize:])
		b.LocalCommID, b.LocalCAGUID, b.RemoteCommID = a.LocalCommID, a.LocalCAGUID, a.RemoteCommID
		if a != b {
			r.t.Errorf("REP\n%+v\nrxe's\n%+v", a, b)
		}
	case cm.AttrREJ:
		a, _, _ := cm.ParseREJ(body)
		b, _, _ := cm.ParseREJ(theirs[cm.HeaderSize:])
		if (a.LocalCommID == 0) != (b.LocalCommID == 0) || a.Of != b.Of || a.Reason != b.Reason || a.PrivateData != b.PrivateData {
			r.t.Errorf("REJ\n%+v\nrxe's\n%+v", a, b)
		}
	case cm.AttrDREQ:
		a, _, _ := cm.ParseDREQ(body)
		b, _, _ := cm.ParseDREQ(theirs[cm.HeaderSize:])
		if a.RemoteQPN != b.RemoteQPN {
			r.t.Errorf("DREQ for %v, rxe's for %v", a.RemoteQPN, b.RemoteQPN)
		}
	case cm.AttrSIDRREP:
		a, _, _ := cm.ParseSIDRREP(body)
		b, _, _ := cm.ParseSIDRREP(theirs[cm.HeaderSize:])
		b.RequestID = a.RequestID
		if a != b {
			r.t.Errorf("SIDR_REP\n%+v\nrxe's\n%+v", a, b)
		}
	}
	if c.header.Attribute != cm.AttrDREQ && c.header.Attribute != cm.AttrREQ && c.header.Attribute != cm.AttrSIDRREQ &&
		h.TransactionID == 0 {
		r.t.Errorf("%v without the transaction of what it answers", h.Attribute)
	}
}

func (r *replay) feed(c captured) {
	r.drain()
	mad := c.mad
	r.ids.patch(&mad, c.header.Attribute)
	r.us.HandleMAD(r.now, Path{Local: c.dst, Remote: c.src}, mad[:])
	r.us.answerChallenges(r.now)
	r.drain()
}

// drain lets the application act, but leaves the agent's output in it.
func (r *replay) drain() {
	for ev, ok := r.us.PollEvent(); ok; ev, ok = r.us.PollEvent() {
		r.us.events = append(r.us.events, ev)
		r.us.on(ev)
	}
}

// find returns the first captured message of a kind.
func find(all []captured, attr cm.Attribute) (data []byte, ok bool) {
	for i := range all {
		if all[i].header.Attribute == attr {
			return all[i].mad[cm.HeaderSize:], true
		}
	}
	return nil, false
}

// replayClient plays rxe's client to our server, which answers with the
// parameters of rxe's.
func replayClient(t *testing.T, all []captured) *replay {
	r := &replay{world: newWorld(t), ids: ids{}}
	r.us = r.server
	client := all[0].src
	rep, accepts := find(all, cm.AttrREP)
	rej, rejects := find(all, cm.AttrREJ)
	r.us.on = func(ev Event) {
		switch {
		case ev.Kind == EventRequest && accepts:
			m, _, _ := cm.ParseREP(rep)
			r.us.must(r.us.Accept(r.now, ev.Conn, AcceptParams{
				QPN: m.LocalQPN, PSN: m.StartingPSN, ResponderResources: m.ResponderResources, InitiatorDepth: m.InitiatorDepth,
				RNRRetryCount: m.RNRRetryCount, FlowControl: m.FlowControl, SRQ: m.SRQ, PrivateData: m.PrivateData[:],
			}))
		case ev.Kind == EventRequest && rejects:
			m, _, _ := cm.ParseREJ(rej)
			r.us.must(r.us.Reject(r.now, ev.Conn, m.Reason, nil, m.PrivateData[:]))
		case ev.Kind == EventSIDRRequest:
			b, _ := find(all, cm.AttrSIDRREP)
			m, _, _ := cm.ParseSIDRREP(b)
			r.us.must(r.us.ReplySIDR(r.now, ev.Conn, SIDRReply{Status: m.Status, QPN: m.QPN, QKey: m.QKey, PrivateData: m.PrivateData[:]}))
		default:
			r.us.obliging(ev)
		}
	}
	if m, _, _ := cm.ParseREJ(rej); !rejects || m.Reason != cm.RejInvalidServiceID {
		r.listenFor(all[0])
	}
	r.play(all, client)
	return r
}

func (r *replay) listenFor(c captured) {
	svc := RouteOf(c.mad[:]).ServiceID
	_, err := r.us.Listen(svc, c.dst, 0)
	r.us.must(err)
}

// replayServer plays rxe's server to our client, which asks with the parameters
// of rxe's.
func replayServer(t *testing.T, all []captured) *replay {
	r := &replay{world: newWorld(t), ids: ids{}}
	r.us = r.client
	path := Path{Local: all[0].src, Remote: all[0].dst}
	if b, ok := find(all, cm.AttrSIDRREQ); ok {
		m, _, _ := cm.ParseSIDRREQ(b)
		_, err := r.us.ResolveSIDR(r.now, SIDRParams{Path: path, ServiceID: m.ServiceID, PrivateData: m.PrivateData[:]})
		r.us.must(err)
	}
	if b, ok := find(all, cm.AttrREQ); ok {
		m, _, _ := cm.ParseREQ(b)
		_, err := r.us.Connect(r.now, ConnectParams{
			Path: path, ServiceID: m.ServiceID, Service: m.Service, QPN: m.LocalQPN, PSN: m.StartingPSN, PathMTU: m.PathMTU,
			ResponderResources: m.ResponderResources, InitiatorDepth: m.InitiatorDepth, FlowControl: m.FlowControl,
			RetryCount: m.RetryCount, RNRRetryCount: m.RNRRetryCount, SRQ: m.SRQ, FlowLabel: m.Primary.FlowLabel,
			ACKTimeout: m.Primary.ACKTimeout, PrivateData: m.PrivateData[:],
		})
		r.us.must(err)
	}
	r.play(all, all[0].dst)
	return r
}

// The starting PSN of a REQ or REP is the first that its sender expects, not
// the first that it sends: two of our own agents would agree on either, the
// captured data tell.
func TestStartingPSNsAreThoseOfTheCapturedData(t *testing.T) {
	const name = "rxe-rping.pcap"
	all := readCapture(t, name)
	client := all[0].src
	first := map[bool]ib.PSN{} // of the client's requests, of the server's
	eachPacket(t, name, func(d *pcap.Datagram, p *roce.Packet) {
		if _, seen := first[d.Src.Addr() == client]; p.DestQP != ib.QP1 && p.Info.Request && !seen {
			first[d.Src.Addr() == client] = p.PSN
		}
	})
	for what, c := range map[string]struct {
		us       *replay
		sq, recv ib.PSN
	}{
		"passive": {replayClient(t, all), first[false], first[true]},
		"active":  {replayServer(t, all), first[true], first[false]},
	} {
		q, err := c.us.us.QPParams(c.us.us.events[0].Conn)
		if err != nil || q.SQPSN != c.sq || q.RQPSN != c.recv {
			t.Errorf("%s: sends from %v and expects %v, rxe's data from %v and %v (%v)", what, q.SQPSN, q.RQPSN, c.sq, c.recv, err)
		}
	}
}

// play feeds the peer's messages and expects the rest from the agent.
func (r *replay) play(all []captured, peer netip.Addr) {
	r.t.Helper()
	for _, c := range all {
		r.now = r.now.Add(monotime.Millisecond)
		if c.src == peer {
			r.feed(c)
			continue
		}
		if c.header.Attribute == cm.AttrDREQ {
			r.drain()
			for _, ev := range r.us.events {
				if st, _ := r.us.State(ev.Conn); st == Established {
					r.us.must(r.us.Disconnect(r.now, ev.Conn, nil))
				}
			}
		}
		r.wantLike(c)
	}
	var d Datagram
	if r.us.PollOutput(&d) {
		h, _, _ := cm.ParseHeader(d.MAD[:])
		r.t.Errorf("sent %v, rxe did not", h.Attribute)
	}
	for i, n := range r.us.count {
		if i > int(DroppedOutputFull) && n != 0 && Counter(i) != NoListener && Counter(i) != Probed && Counter(i) != Held {
			r.t.Errorf("counted %d %v", n, Counter(i))
		}
	}
}
