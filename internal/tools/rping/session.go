// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"context"
	"errors"
	"fmt"
	"io"

	"verbena/ib"
	"verbena/verbs"
)

const (
	sendDepth    = 16 // rping's
	receiveDepth = 2
)

// session is one connection with its buffers.
type session struct {
	o      *options
	out    io.Writer
	log    io.Writer
	server bool

	dev     *verbs.Context
	pd      *verbs.PD
	channel *verbs.CompChannel
	cq      *verbs.CQ
	qp      *verbs.QP
	infos   *verbs.MR // the Info received, then the Info to send
	data    keeper    // sink of READs, source and target of WRITEs
	source  keeper    // client, or measuring: source of the ping data
	undo    []func() error

	received int // messages received and not yet taken
	peer     Info
	done     [256]int // completions not yet taken, by opcode
	wc       [8]ib.WC
}

// Offsets in the infos region.
const (
	infoIn  = 0
	infoOut = InfoSize
)

// setUp makes everything a connection needs but the queue pair.
func (s *session) setUp(dev *verbs.Context) error {
	s.dev = dev
	var err error
	if s.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	s.onClose(s.pd.Dealloc)
	if s.channel, err = dev.CreateCompChannel(); err != nil {
		return err
	}
	s.onClose(s.channel.Close)
	if s.cq, err = dev.CreateCQ(s.sendDepth()+receiveDepth, s.channel); err != nil {
		return err
	}
	s.onClose(s.cq.Destroy)
	if s.infos, err = s.pd.RegMR(make([]byte, 2*InfoSize), ib.AccessLocalWrite); err != nil {
		return err
	}
	s.onClose(s.infos.Dereg)
	size := s.o.size
	if s.server {
		size = maxSize + 1 // whatever the client offers
	}
	if s.data, err = s.newKeeper(make([]byte, size)); err != nil {
		return err
	}
	s.onClose(s.data.close)
	if s.source, err = s.newKeeper(make([]byte, size)); err != nil {
		return err
	}
	s.onClose(s.source.close)
	return nil
}

// sendDepth leaves room for invalidate and register before each transfer.
func (s *session) sendDepth() int { return max(sendDepth, 3*s.o.txDepth) }

// qpInit are the attributes of the queue pair.
func (s *session) qpInit() *verbs.QPInitAttr {
	return &verbs.QPInitAttr{
		Type: ib.QPTypeRC, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: ib.QPCap{MaxSendWR: uint32(s.sendDepth()), MaxRecvWR: receiveDepth, MaxSendSGE: 1,
			MaxRecvSGE: 1},
	}
}

// adopt takes the connection's queue pair and posts the first receive.
func (s *session) adopt(qp *verbs.QP) error {
	s.qp = qp
	if err := s.cq.RequestNotify(false); err != nil {
		return err
	}
	return s.postReceive()
}

func (s *session) postReceive() error {
	_, err := s.qp.PostRecv(verbs.RecvWR{SGList: []ib.SGE{s.infos.SGE(infoIn, InfoSize)}})
	return err
}

// send sends an Info, after the work requests before it.
func (s *session) send(i Info, wr verbs.SendWR) error {
	i.Append(s.infos.Bytes()[infoOut:infoOut])
	if wr.Opcode != ib.WRSendWithInv {
		wr.Opcode = ib.WRSend
	}
	wr.Flags = ib.SendSignaled
	wr.SGList = []ib.SGE{s.infos.SGE(infoOut, InfoSize)}
	s.debugf("send addr %x rkey %x len %d", i.Addr, uint32(i.RKey), i.Size)
	if err := s.post(wr); err != nil {
		return err
	}
	return nil
}

func (s *session) post(wrs ...verbs.SendWR) error {
	if _, err := s.qp.PostSend(wrs...); err != nil {
		return fmt.Errorf("cannot post: %w", err)
	}
	return nil
}

// errDisconnected is the regular end: the peer is done.
var errDisconnected = errors.New("the peer disconnected")

// awaitInfo waits for a message of the peer.
func (s *session) awaitInfo(ctx context.Context) (Info, error) {
	for s.received == 0 {
		if err := s.progress(ctx, true); err != nil {
			return Info{}, err
		}
	}
	s.received--
	i := s.peer
	s.debugf("received addr %x rkey %x len %d", i.Addr, uint32(i.RKey), i.Size)
	return i, nil
}

// await waits for a completion of that kind.
func (s *session) await(ctx context.Context, op ib.WCOpcode) error {
	for s.done[op] == 0 {
		if err := s.progress(ctx, true); err != nil {
			return err
		}
	}
	s.done[op]--
	return nil
}

// progress handles the completions there are. If there are none it sleeps
// until there may be some.
func (s *session) progress(ctx context.Context, sleep bool) error {
	n, err := s.poll()
	if n > 0 || err != nil || !sleep {
		return err
	}
	if _, err := s.channel.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return s.cq.RequestNotify(false) // before the next poll, so that none is missed
}

func (s *session) poll() (int, error) {
	n, err := s.cq.Poll(s.wc[:])
	if err != nil {
		return n, err
	}
	for i := range n {
		if err := s.handle(&s.wc[i]); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (s *session) handle(wc *ib.WC) error {
	if wc.Status == ib.WCWRFlushErr {
		return errDisconnected
	}
	if err := wc.Err(); err != nil {
		return fmt.Errorf("cq completion failed status %d: %w", uint8(wc.Status), err)
	}
	if wc.Opcode != ib.WCRecv {
		s.done[wc.Opcode]++
		return nil
	}
	i, ok := ParseInfo(s.infos.Bytes()[infoIn : infoIn+int(min(wc.ByteLen, InfoSize))])
	if !ok {
		//lint:ignore ST1005 the words are the original program's
		return fmt.Errorf("Received bogus data, size %d: the peer is no rping", wc.ByteLen)
	}
	s.peer = i
	s.received++
	if wc.Flags&ib.WCWithInv != 0 {
		s.debugf("the peer invalidated rkey %x", uint32(wc.InvalidatedRKey))
	}
	return s.postReceive()
}

func (s *session) debugf(format string, args ...any) {
	if s.o.debug {
		fmt.Fprintf(s.log, format+"\n", args...)
	}
}

func (s *session) onClose(f func() error) { s.undo = append(s.undo, f) }

// close destroys the objects, the last first.
func (s *session) close() {
	for i := len(s.undo) - 1; i >= 0; i-- {
		_ = s.undo[i]() // nothing is left to save
	}
	s.undo = nil
}
