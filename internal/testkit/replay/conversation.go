// SPDX-License-Identifier: BSD-2-Clause

package replay

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"

	"verbena/ib"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
	wire "verbena/internal/wire/roce"
)

// A Conversation is the packets of one connection in a capture, in order of
// time, or for UD those between two queue pairs.
type Conversation struct {
	Name    string
	Service wire.Service
	Packets []Packet
	Ends    [2]End
}

// End is one side of a conversation.
type End struct {
	Addr netip.Addr
	QPN  ib.QPN
	PSN  ib.PSN // of its first request, if it made any
	asks bool
}

// Packet is a recorded packet; From tells which end sent it.
type Packet struct {
	wire.Packet
	From int
}

// Load reads the conversations of a capture, without those of the CM.
func Load(path string) ([]*Conversation, error) {
	r, err := pcapread.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []*Conversation
	byKey := map[string]*Conversation{}
	for {
		d, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		var p wire.Packet
		if m := p.Parse(bytes.Clone(d.Payload)); m != wire.WellFormed {
			return nil, fmt.Errorf("frame %d: %v", r.Frame(), m)
		}
		if p.DestQP == ib.QP1 || p.DestQP == ib.QPMulticast {
			continue
		}
		k := key(&d, &p)
		c := byKey[k]
		if c == nil {
			c = &Conversation{Name: k, Service: p.Info.Service}
			c.Ends[0].Addr, c.Ends[1].Addr = d.Src.Addr(), d.Dst.Addr()
			byKey[k] = c
			all = append(all, c)
		}
		c.add(&d, p)
	}
	return all, nil
}

// key tells conversations apart: connected queue pairs use one source port in
// both directions, datagrams name both ends.
func key(d *pcap.Datagram, p *wire.Packet) string {
	if p.Info.Service == wire.ServiceUD {
		a, b := p.DETH.SrcQP, p.DestQP
		return fmt.Sprintf("UD %v %v", min(a, b), max(a, b))
	}
	return fmt.Sprintf("%v port %d", p.Info.Service, d.Src.Port())
}

func (c *Conversation) add(d *pcap.Datagram, p wire.Packet) {
	from := 0
	if d.Src.Addr() != c.Ends[0].Addr {
		from = 1
	}
	c.Ends[1-from].QPN = p.DestQP
	if e := &c.Ends[from]; p.Info.Request && !e.asks {
		e.asks, e.PSN = true, p.PSN
	}
	c.Packets = append(c.Packets, Packet{p, from})
}

// mtu returns the path MTU, as far as the conversation shows it.
func (c *Conversation) mtu() ib.MTU {
	for i := range c.Packets {
		if p := &c.Packets[i]; p.Info.HasPayload && !p.Info.Last {
			return ib.MTUFor(len(p.Payload))
		}
	}
	return ib.MTU1024
}

// message returns the packets of the message that starts at packet i.
func (c *Conversation) message(i int) (m []*wire.Packet) {
	from, psn := c.Packets[i].From, c.Packets[i].PSN
	for ; i < len(c.Packets); i++ {
		p := &c.Packets[i]
		if p.From != from || !p.Info.Request || p.PSN != psn {
			continue
		}
		m = append(m, &p.Packet)
		if p.Info.Last {
			break
		}
		psn = psn.Add(1)
	}
	return m
}

// answer returns the first packet after i that end sends with this PSN and is
// no request.
func (c *Conversation) answer(i, end int, psn ib.PSN) *wire.Packet {
	for ; i < len(c.Packets); i++ {
		if p := &c.Packets[i]; p.From == end && p.Info.Response && p.PSN == psn {
			return &p.Packet
		}
	}
	return nil
}
