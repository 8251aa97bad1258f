// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"errors"
	"net/netip"
	"syscall"

	"verbena/ib"
	wire "verbena/internal/wire/rsocket"
	"verbena/rdmacm"
	"verbena/verbs"
)

// Datagrams that a queue pair has room for: the defaults of librdmacm for sending, and more for
// receiving, as programs of UDP expect of a socket's buffer.
const (
	datagramSends    = 64
	datagramReceives = 256
)

const (
	grhSize  = 40
	slotSize = grhSize + wire.DatagramMax
)

// datagramQP is a UD queue pair at a local address. Its memory is
//
//	a slot for each receive: GRH │ header │ data          a buffer for each send: header │ data
type datagramQP struct {
	// immutable after udAt
	c        *PacketConn
	local    netip.AddrPort
	header   []byte // precedes each datagram that it sends
	id       *rdmacm.ID
	pd       *verbs.PD
	cq       *verbs.CQ
	qp       *verbs.QP
	mr       *verbs.MR
	gidIndex uint8
	mtu      int // bytes that a packet of the port holds

	// guarded by the socket's mu
	slots   []arrival
	free    []uint16 // send buffers
	wc      [16]ib.WC
	wr      [1]verbs.SendWR
	recv    [1]verbs.RecvWR
	sge     [1]ib.SGE
	scratch [wire.DatagramMax]byte // a packet of UDP
}

// udAt returns the queue pair at a local address, made if there is none. The caller holds mu.
func (c *PacketConn) udAt(local netip.Addr) (*datagramQP, error) {
	for _, ud := range c.uds {
		if ud.local.Addr() == local {
			return ud, nil
		}
	}
	ud := &datagramQP{c: c, local: netip.AddrPortFrom(local, c.local.Port())}
	if err := ud.make(); err != nil {
		return nil, errors.Join(err, ud.destroy())
	}
	if c.uds = append(c.uds, ud); len(c.uds) == 1 {
		c.cq = ud.cq
		c.handOver() // one of those that wait waits for completions from now on
	} else {
		c.serving.Go(ud.serve)
	}
	return ud, nil
}

func (ud *datagramQP) make() (err error) {
	ud.header = wire.UDHeader{From: ud.local}.Append(nil)
	if ud.id, err = rdmacm.NewID(ud.c.channel, rdmacm.UDP); err != nil {
		return err
	}
	if err = ud.id.BindAddr(netip.AddrPortFrom(ud.local.Addr(), 0)); err != nil {
		return err
	}
	dev := ud.id.Verbs()
	if dev == nil {
		return syscall.ENODEV
	}
	if err = ud.findPort(dev); err != nil {
		return err
	}
	if ud.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	if ud.cq, err = dev.CreateCQ(datagramSends+datagramReceives, nil); err != nil {
		return err
	}
	err = ud.id.CreateQP(ud.pd, &verbs.QPInitAttr{Type: ib.QPTypeUD, SendCQ: ud.cq, RecvCQ: ud.cq,
		Cap: ib.QPCap{MaxSendWR: datagramSends, MaxRecvWR: datagramReceives, MaxSendSGE: 1,
			MaxRecvSGE: 1}})
	if err != nil {
		return err
	}
	ud.qp = ud.id.QP()
	memory := make([]byte, datagramReceives*slotSize+datagramSends*wire.DatagramMax)
	if ud.mr, err = ud.pd.RegMR(memory, ib.AccessLocalWrite); err != nil {
		return err
	}
	for i := range datagramSends {
		ud.free = append(ud.free, uint16(i))
	}
	ud.slots = make([]arrival, datagramReceives)
	for i := range ud.slots {
		ud.slots[i].ud, ud.slots[i].slot = ud, uint16(i)
		if err := ud.post(&ud.slots[i]); err != nil {
			return err
		}
	}
	return nil
}

// findPort finds the index of the local address in the port's GID table, and the path MTU.
func (ud *datagramQP) findPort(dev *verbs.Context) error {
	port, err := dev.QueryPort(1)
	if err != nil {
		return err
	}
	ud.mtu = min(port.ActiveMTU.Bytes(), wire.DatagramMax)
	table, err := dev.GIDTable(1)
	if err != nil {
		return err
	}
	for _, e := range table {
		if e.GID == ib.GIDFromAddr(ud.local.Addr()) && e.Type == ib.GIDTypeRoCEv2 {
			ud.gidIndex = uint8(e.Index)
			return nil
		}
	}
	return syscall.EADDRNOTAVAIL
}

// destroy gives back the objects that the queue pair has.
func (ud *datagramQP) destroy() error {
	var errs []error
	if ud.qp != nil {
		errs = append(errs, ud.id.DestroyQP())
	}
	if ud.mr != nil {
		errs = append(errs, ud.mr.Dereg())
	}
	if ud.cq != nil {
		errs = append(errs, ud.cq.Destroy())
	}
	if ud.pd != nil {
		errs = append(errs, ud.pd.Dealloc())
	}
	if ud.id != nil {
		errs = append(errs, ud.id.Destroy())
	}
	return errors.Join(errs...)
}

// serve takes the completions of a further queue pair: a goroutine that reads waits for those of
// the first.
func (ud *datagramQP) serve() {
	for ud.c.ctx.Err() == nil && ud.cq.Await(ud.c.ctx) == nil {
		ud.c.mu.Lock()
		ud.c.progress()
		ud.c.mu.Unlock()
	}
}

// post makes a slot ready for a datagram.
func (ud *datagramQP) post(a *arrival) error {
	i := int(a.slot)
	ud.sge[0] = ud.mr.SGE(i*slotSize, slotSize)
	ud.recv[0] = verbs.RecvWR{ID: receiveID | uint64(i), SGList: ud.sge[:]}
	_, err := ud.qp.PostRecv(ud.recv[:]...)
	return err
}

// progress takes completions.
func (ud *datagramQP) progress() {
	for range batches {
		n, err := ud.cq.Poll(ud.wc[:])
		if err != nil {
			return
		}
		for i := range n {
			ud.complete(&ud.wc[i])
		}
		if n < len(ud.wc) {
			return
		}
	}
}

func (ud *datagramQP) complete(wc *ib.WC) {
	if wc.WRID&receiveID == 0 {
		ud.free = append(ud.free, uint16(wc.WRID))
		return
	}
	if wc.Status == ib.WCWRFlushErr {
		return
	}
	a := &ud.slots[wc.WRID&^receiveID]
	if ud.received(a, wc) {
		ud.c.deliver(a)
	} else {
		_ = ud.post(a) // fails only while the queue pair is in the error state
	}
}

// received reads the header of a datagram, and reports whether it is for the program.
func (ud *datagramQP) received(a *arrival, wc *ib.WC) bool {
	if wc.Status != ib.WCSuccess || wc.ByteLen < grhSize || ud.c.closed {
		return false
	}
	packet := ud.mr.Bytes()[int(a.slot)*slotSize:][grhSize:wc.ByteLen]
	h, data, ok := wire.ParseUDHeader(packet)
	if !ok {
		return false
	}
	from := h.From.Addr().Unmap()
	if from.IsLinkLocalUnicast() {
		from = from.WithZone(ud.local.Addr().Zone())
	}
	a.from, a.data = netip.AddrPortFrom(from, h.From.Port()), data
	return ud.c.wants(a.from)
}

// send sends a datagram to a peer whose number is known. A send buffer is free.
func (ud *datagramQP) send(p *packetPeer, b []byte) error {
	last := len(ud.free) - 1
	i := int(ud.free[last])
	at := datagramReceives*slotSize + i*wire.DatagramMax
	buffer := ud.mr.Bytes()[at:][:len(ud.header)+len(b)]
	copy(buffer[copy(buffer, ud.header):], b)
	ud.sge[0] = ud.mr.SGE(at, len(buffer))
	ud.wr[0] = verbs.SendWR{ID: uint64(i), Opcode: ib.WRSend, Flags: ib.SendSignaled,
		SGList: ud.sge[:], AH: p.ah, RemoteQPN: p.qpn, RemoteQKey: rdmacm.UDQKey}
	if _, err := ud.qp.PostSend(ud.wr[:]...); err != nil {
		return err
	}
	ud.free = ud.free[:last]
	return nil
}
