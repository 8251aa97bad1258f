// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"fmt"
	"math/rand/v2"

	"verbena/ib"
	"verbena/internal/tools/cli"
	"verbena/verbs"
)

const (
	grhBytes = 40 // before a datagram in its receive buffer

	// The Q_Key of rdma-core's programs.
	datagramQKey = ib.QKey(0x11111111)
	minRNRTimer  = 12 // 0.64 ms
	ackTimeout   = 14 // 67 ms
	retries      = 7
	fillByte     = 0x7b
)

// Work request identifiers, also the bits of the completions that a queue pair waits for.
const (
	recvID = 1
	sendID = 2
)

// endpoint is one side: its queue pairs and the one buffer that all messages
// are sent from and received into.
type endpoint struct {
	o       *options
	dev     *verbs.Context
	pd      *verbs.PD
	channel *verbs.CompChannel // nil when polling
	cq      *verbs.CQ
	srq     *verbs.SRQ // nil unless shared
	mr      *verbs.MR
	qps     []*verbs.QP
	ah      *verbs.AH // datagrams only
	sgid    ib.GIDEntry
	local   []Address // slots of them
	peerQPN ib.QPN
	cm      *managed // iWARP only
	undo    []func() error
}

// open makes everything up to queue pairs in INIT with receives posted.
func open(o *options) (*endpoint, error) {
	e := &endpoint{o: o}
	if err := e.build(); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *endpoint) build() error {
	o := e.o
	var err error
	if e.dev, err = o.dev.Open(); err != nil {
		return err
	}
	e.onClose(e.dev.Close)
	attr, err := e.dev.QueryPort(o.port)
	if err != nil {
		return fmt.Errorf("%s has no usable port %d: %w", e.dev.Info().Name, o.port, err)
	}
	if err := e.fits(attr); err != nil {
		return err
	}
	if e.sgid, err = cli.LocalGID(e.dev, o.port, o.gidIndex); err != nil {
		return err
	}
	lid := attr.LID
	if e.dev.Info().Kind.IsIWARP() {
		if e.cm, lid, err = e.manage(); err != nil {
			return err
		}
	}
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return err
	}
	e.onClose(e.pd.Dealloc)
	if err := e.makeBuffer(); err != nil {
		return err
	}
	if err := e.makeQueues(); err != nil {
		return err
	}
	for range o.qps {
		if err := e.addQP(lid); err != nil {
			return err
		}
	}
	if err := e.postReceives(o.rxDepth); err != nil {
		return err
	}
	if o.events {
		return e.cq.RequestNotify(false)
	}
	return nil
}

// fits checks sizes against the port's limits.
func (e *endpoint) fits(attr ib.PortAttr) error {
	o := e.o
	name := e.dev.Info().Name
	if o.kind.pathMTU && !e.dev.Info().Kind.IsIWARP() && o.mtu > attr.ActiveMTU {
		return fmt.Errorf("path MTU %v is more than the %v that %s carries; use -m %v, or raise "+
			"the interface's MTU", o.mtu, attr.ActiveMTU, name, attr.ActiveMTU)
	}
	if o.kind.qpType == ib.QPTypeUD && o.size > attr.ActiveMTU.Bytes() {
		return fmt.Errorf("a datagram of %d bytes is more than the %v that %s carries; use a "+
			"smaller -s", o.size, attr.ActiveMTU, name)
	}
	return nil
}

func (e *endpoint) makeBuffer() error {
	buf := make([]byte, e.headroom()+e.o.size)
	if !e.o.kind.shared {
		for i := range buf {
			buf[i] = fillByte
		}
	}
	var err error
	if e.mr, err = e.pd.RegMR(buf, ib.AccessLocalWrite); err != nil {
		return fmt.Errorf("cannot register %d bytes: %w", len(buf), err)
	}
	e.onClose(e.mr.Dereg)
	return nil
}

func (e *endpoint) makeQueues() error {
	o := e.o
	var err error
	if o.events {
		if e.channel, err = e.dev.CreateCompChannel(); err != nil {
			return err
		}
		e.onClose(e.channel.Close)
	}
	if e.cq, err = e.dev.CreateCQ(o.rxDepth+o.qps, e.channel); err != nil {
		return fmt.Errorf("cannot create a completion queue for %d receives: %w", o.rxDepth, err)
	}
	e.onClose(e.cq.Destroy)
	if o.kind.shared {
		if e.srq, err = e.pd.CreateSRQ(ib.SRQAttr{MaxWR: uint32(o.rxDepth),
			MaxSGE: 1}); err != nil {
			return fmt.Errorf("cannot create a shared receive queue of %d: %w", o.rxDepth, err)
		}
		e.onClose(e.srq.Destroy)
	}
	e.local = make([]Address, o.slots())
	return nil
}

func (e *endpoint) addQP(lid uint16) error {
	o := e.o
	init := verbs.QPInitAttr{
		Type: o.kind.qpType, SendCQ: e.cq, RecvCQ: e.cq, SRQ: e.srq,
		Cap: ib.QPCap{MaxSendWR: 1, MaxSendSGE: 1},
	}
	if e.srq == nil {
		init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = uint32(o.rxDepth), 1
	}
	qp, err := e.pd.CreateQP(&init)
	if err != nil {
		return fmt.Errorf("cannot create a queue pair: %w", err)
	}
	e.onClose(qp.Destroy)
	attr := ib.QPAttr{State: ib.QPInit, PortNum: uint8(o.port), QKey: datagramQKey}
	mask := ib.QPStateAttr | ib.QPPKeyIndex | ib.QPPort
	if o.kind.qpType == ib.QPTypeUD {
		mask |= ib.QPQKey
	} else {
		mask |= ib.QPAccessFlags
	}
	if err := qp.Modify(&attr, mask); err != nil {
		return err
	}
	e.local[len(e.qps)] = Address{LID: lid, QPN: qp.QPN(), PSN: ib.NewPSN(rand.Uint32()),
		GID: e.sgid.GID}
	e.qps = append(e.qps, qp)
	return nil
}

// connect brings every queue pair to RTS towards the peer's.
func (e *endpoint) connect(theirs []Address) error {
	for i, qp := range e.qps {
		if theirs[i].LID != 0 {
			return fmt.Errorf("%s is a RoCE device, the peer's is none: choose with -d on "+
				"both sides", e.dev.Info().Name)
		}
		if theirs[i].GID.IsZero() {
			return fmt.Errorf("the peer sent no GID: start it with -g and the index of a RoCE v2 " +
				"GID (see devinfo -v there)")
		}
		var err error
		switch e.o.kind.qpType {
		case ib.QPTypeUD:
			err = e.connectUD(qp, e.local[i], theirs[i])
		default:
			err = e.connectConnected(qp, e.local[i], theirs[i])
		}
		if err != nil {
			return fmt.Errorf("cannot connect to QPN %v at %s: %w", theirs[i].QPN,
				theirs[i].GID.Addr(), err)
		}
	}
	return nil
}

func (e *endpoint) addressVector(to Address) ib.AHAttr {
	return ib.AHAttr{
		IsGlobal: true, DLID: to.LID, SL: uint8(e.o.sl), PortNum: uint8(e.o.port),
		GRH: ib.GRH{DGID: to.GID, SGIDIndex: uint8(e.sgid.Index)},
	}
}

func (e *endpoint) connectConnected(qp *verbs.QP, from, to Address) error {
	rtr := ib.QPAttr{
		State: ib.QPRTR, PathMTU: e.o.mtu, DestQPN: to.QPN, RQPSN: to.PSN, AH: e.addressVector(to),
		MaxDestRdAtomic: 1, MinRNRTimer: minRNRTimer,
	}
	rts := ib.QPAttr{State: ib.QPRTS, SQPSN: from.PSN, Timeout: ackTimeout, RetryCnt: retries,
		RNRRetry: retries, MaxRdAtomic: 1}
	toRTR := ib.QPStateAttr | ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN
	toRTS := ib.QPStateAttr | ib.QPSQPSN
	if e.o.kind.reliable {
		toRTR |= ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer
		toRTS |= ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry | ib.QPMaxQPRdAtomic
	}
	if err := qp.Modify(&rtr, toRTR); err != nil {
		return err
	}
	return qp.Modify(&rts, toRTS)
}

func (e *endpoint) connectUD(qp *verbs.QP, from, to Address) error {
	if err := qp.Modify(&ib.QPAttr{State: ib.QPRTR}, ib.QPStateAttr); err != nil {
		return err
	}
	if err := qp.Modify(&ib.QPAttr{State: ib.QPRTS, SQPSN: from.PSN},
		ib.QPStateAttr|ib.QPSQPSN); err != nil {
		return err
	}
	av := e.addressVector(to)
	var err error
	if e.ah, err = e.pd.CreateAH(&av); err != nil {
		return err
	}
	e.onClose(e.ah.Destroy)
	e.peerQPN = to.QPN
	return nil
}

// headroom returns the bytes of a receive buffer before the message.
func (e *endpoint) headroom() int {
	if e.o.kind.qpType == ib.QPTypeUD {
		return grhBytes
	}
	return 0
}

func (e *endpoint) postReceives(n int) error {
	wr := verbs.RecvWR{ID: recvID, SGList: []ib.SGE{e.mr.SGE(0, e.headroom()+e.o.size)}}
	for range n {
		var err error
		if e.srq != nil {
			_, err = e.srq.PostRecv(wr)
		} else {
			_, err = e.qps[0].PostRecv(wr)
		}
		if err != nil {
			return fmt.Errorf("cannot post a receive: %w", err)
		}
	}
	return nil
}

func (e *endpoint) postSend(qp int) error {
	wr := verbs.SendWR{
		ID: sendID, Opcode: ib.WRSend, Flags: ib.SendSignaled,
		SGList: []ib.SGE{e.mr.SGE(e.headroom(), e.o.size)},
		AH:     e.ah, RemoteQPN: e.peerQPN, RemoteQKey: datagramQKey,
	}
	if _, err := e.qps[qp].PostSend(wr); err != nil {
		return fmt.Errorf("cannot post a send: %w", err)
	}
	return nil
}

// qpIndex returns which of our queue pairs has that number.
func (e *endpoint) qpIndex(n ib.QPN) (int, bool) {
	for i, qp := range e.qps {
		if qp.QPN() == n {
			return i, true
		}
	}
	return 0, false
}

func (e *endpoint) onClose(f func() error) { e.undo = append(e.undo, f) }

// close destroys the objects, the last first.
func (e *endpoint) close() {
	for i := len(e.undo) - 1; i >= 0; i-- {
		_ = e.undo[i]() // nothing is left to save
	}
	e.undo = nil
}
