// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"errors"
	"fmt"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/ntb"
)

// ErrRegion is a region that cannot be exposed.
var ErrRegion = errors.New("ntb: invalid region")

// region is one of ours that lies in our window.
type region struct {
	mr        *mem.Region
	key       ib.RKey
	pieces    []wire.Piece
	announced bool // the peer knows it, or will
	known     bool // it, or one before it, was announced in some session
	withdrawn bool // and is to forget it
}

// Expose announces that a region lies in our window, in these pieces: peers
// write there directly. It stays announced, over losses of the link too, until
// Withdraw.
//
// Errors: ErrRegion if the pieces are too many or not as long as the region.
func (n *Node) Expose(mr *mem.Region, pieces []wire.Piece) error {
	var sum uint64
	for _, p := range pieces {
		sum += p.Bytes
	}
	if len(pieces) > wire.MaxPieces || len(pieces) == 0 || sum != mr.Length() {
		return fmt.Errorf("%w: %d pieces of %d bytes, the region has %d", ErrRegion, len(pieces),
			sum, mr.Length())
	}
	r := &region{mr: mr, key: mr.RKey(), pieces: append([]wire.Piece(nil), pieces...)}
	n.regions = append(n.regions, r)
	if n.Up() {
		n.announceRegion(r)
	}
	return nil
}

// Withdraw takes a region back. Until Withdrawn says so the peer may still
// write to it.
func (n *Node) Withdraw(now monotime.Time, mr *mem.Region) {
	for _, r := range n.regions {
		if r.mr != mr || r.withdrawn {
			continue
		}
		r.withdrawn = true
		if !r.announced {
			return // see Withdrawn
		}
		n.command(command{op: wire.OpMRDelete, region: r,
			body: wire.MRDelete{Key: r.key}.Append(nil)})
		return
	}
}

// Withdrawn reports whether no peer writes to the region any more.
func (n *Node) Withdrawn(now monotime.Time, mr *mem.Region) bool {
	for _, r := range n.regions {
		if r.mr != mr {
			continue
		}
		if !r.withdrawn || r.announced || r.known && n.ch.Stale(now) {
			return false
		}
		n.forgetRegion(r)
		return true
	}
	return true
}

func (n *Node) forgetRegion(r *region) {
	for i, x := range n.regions {
		if x == r {
			n.regions = append(n.regions[:i], n.regions[i+1:]...)
			return
		}
	}
}

func (n *Node) announceRegion(r *region) {
	r.announced, r.known = true, true
	c := wire.MRCreate{Key: r.key, Access: r.mr.Access(), Addr: r.mr.Addr(), Length: r.mr.Length(),
		Total: uint32(len(r.pieces)), Domain: uint32(r.mr.PD())}
	at := copy(c.Pieces[:], r.pieces)
	c.Count = uint32(at)
	n.command(command{op: wire.OpMRCreate, region: r, body: c.Append(nil)})
	for at < len(r.pieces) {
		a := wire.MRAppend{Key: r.key, Pos: uint32(at)}
		k := copy(a.Pieces[:], r.pieces[at:])
		a.Count = uint32(k)
		n.command(command{op: wire.OpMRAppend, region: r, body: a.Append(nil)})
		at += k
	}
}

// rmr is the shadow of a region of the peer that lies in its window.
type rmr struct {
	key    ib.RKey
	domain uint32
	access ib.Access
	addr   uint64
	length uint64
	total  int
	pieces []wire.Piece
}

// maxRMRs bounds the regions that a peer can make us remember.
const maxRMRs = 1 << 16

func (n *Node) createRMR(c *wire.MRCreate) wire.CommandStatus {
	switch {
	case n.rmrs[c.Key] != nil:
		return wire.CommandExists
	case len(n.rmrs) >= maxRMRs:
		return wire.CommandNoRoom
	case c.Length > 0 && c.Length-1 > ^uint64(0)-c.Addr:
		return wire.CommandMalformed
	}
	m := &rmr{key: c.Key, domain: c.Domain, access: c.Access, addr: c.Addr, length: c.Length,
		total: int(c.Total)}
	if !n.addPieces(m, c.Pieces[:c.Count]) {
		return wire.CommandMalformed
	}
	n.rmrs[c.Key] = m
	return wire.CommandDone
}

func (n *Node) appendRMR(c *wire.MRAppend) wire.CommandStatus {
	m := n.rmrs[c.Key]
	if m == nil {
		return wire.CommandNoSuch
	}
	if int(c.Pos) != len(m.pieces) || int(c.Count) > m.total-len(m.pieces) ||
		!n.addPieces(m, c.Pieces[:c.Count]) {
		return wire.CommandMalformed
	}
	return wire.CommandDone
}

func (n *Node) addPieces(m *rmr, list []wire.Piece) bool {
	for _, p := range list {
		if !n.ch.PeerContains(p.At, p.Bytes) {
			return false
		}
	}
	m.pieces = append(m.pieces, list...)
	return true
}

func (n *Node) deleteRMR(key ib.RKey) wire.CommandStatus {
	if n.rmrs[key] == nil {
		return wire.CommandNoSuch
	}
	delete(n.rmrs, key)
	n.rmr = nil
	return wire.CommandDone
}

// direct returns where in the peer's window a WRITE goes, and how many of its n
// bytes lie there in a row; none if the region does not lie there or is not to
// be written by this queue pair: then its owner judges.
func (f *far) direct(key ib.RKey, va uint64, size uint32) (at uint64, run uint32) {
	if !f.grant.Open {
		return 0, 0
	}
	m := f.qp.node.shadow(key)
	if m == nil || m.domain != f.grant.Domain {
		return 0, 0
	}
	return m.place(va, size)
}

// shadow returns our record of a region of the peer's, nil if there is none.
func (n *Node) shadow(key ib.RKey) *rmr {
	if m := n.rmr; m != nil && m.key == key {
		return m
	}
	n.rmr = n.rmrs[key]
	return n.rmr
}

func (m *rmr) place(va uint64, size uint32) (at uint64, run uint32) {
	off := va - m.addr
	if len(m.pieces) != m.total || !m.access.Has(ib.AccessRemoteWrite) || off > m.length ||
		uint64(size) > m.length-off {
		return 0, 0
	}
	for i := range m.pieces {
		p := &m.pieces[i]
		if off < p.Bytes {
			return p.At + off, uint32(min(uint64(size), p.Bytes-off))
		}
		off -= p.Bytes
	}
	return 0, 0
}
