// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"syscall"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

const (
	minRNRTimer = 12 // 0.64 ms
	ackTimeout  = 14 // 67 ms
	retries     = 7
	qkey        = 0x11111111
	readDepth   = 255 // READs and atomics outstanding, where the device and the peer allow

	olderReadDepth = 16 // of peers whose offer does not tell

	linePair        = 128 // processors fetch the other line of a pair too
	unreliableDepth = 512 // receives of a service that drops messages without one

	latencyDepth = 16 // messages whose completion a latency test leaves unread
)

// endpoint is one side: queue pairs, each with a send and a receive half of
// the one memory region.
//
//	memory  | send 0 | receive 0 | send 1 | receive 1 | …
//	          stride   stride
type endpoint struct {
	o       *options
	dev     *verbs.Context
	pd      *verbs.PD
	channel *verbs.CompChannel // nil when polling
	scq     *verbs.CQ
	rcq     *verbs.CQ // the same as scq in a latency test
	mr      *verbs.MR
	flows   []flow
	sgid    ib.GIDEntry
	portMTU int // bytes
	largest int // message
	rdAtom  uint8
	stride  int
	cmPort  uint16 // that the connection manager listens on; 0 without
	undo    []func() error
}

// openEndpoint makes everything but queue pairs, on dev.
func openEndpoint(o *options, dev *verbs.Context) (*endpoint, error) {
	e := &endpoint{o: o, dev: dev}
	if err := e.build(); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *endpoint) build() error {
	o := e.o
	if kind := e.dev.Info().Kind; kind != rdmacm.RoCE && o.service != serviceRC {
		return fmt.Errorf("--connection %s: devices of kind %s have RC queue pairs only (%w)",
			o.service, kind, syscall.EOPNOTSUPP)
	}
	port, err := e.dev.QueryPort(o.ibPort)
	if err != nil {
		return fmt.Errorf("%s has no usable port %d: %w", e.dev.Info().Name, o.ibPort, err)
	}
	e.portMTU = port.ActiveMTU.Bytes()
	if o.mtuBytes > e.portMTU {
		return fmt.Errorf("path MTU %d is more than the %d that %s carries; use a smaller -m, or "+
			"raise the interface's MTU", o.mtuBytes, e.portMTU, e.dev.Info().Name)
	}
	if o.service == serviceUD {
		if err := o.bound(e.portMTU, "a datagram on "+e.dev.Info().Name); err != nil {
			return err
		}
	}
	if e.sgid, err = localAddress(e.dev, o); err != nil {
		return err
	}
	e.rdAtom = uint8(min(readDepth, e.dev.Query().MaxQPRdAtom))
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return err
	}
	e.onClose(e.pd.Dealloc)
	sizes := o.sizes()
	e.largest = sizes[len(sizes)-1]
	e.stride = strideOf(e.largest + o.service.grh())
	// No READ waits for another, as in perftest: after a loss only missing packets are read again.
	const all = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead |
		ib.AccessRemoteAtomic | ib.AccessRelaxedOrdering
	buf, err := e.dev.AllocBuffer(2 * e.stride * o.qps)
	if err != nil {
		return err
	}
	e.onClose(buf.Free)
	if e.mr, err = e.pd.RegMR(buf.Bytes(), all); err != nil {
		return fmt.Errorf("cannot register %d bytes: %w", 2*e.stride*o.qps, err)
	}
	e.onClose(e.mr.Dereg)
	if o.events {
		if e.channel, err = e.dev.CreateCompChannel(); err != nil {
			return err
		}
		e.onClose(e.channel.Close)
	}
	if !o.test.bandwidth() {
		e.scq, err = e.makeCQ(e.sendDepth() + e.receiveDepth())
		e.rcq = e.scq
	} else if e.scq, err = e.makeCQ(o.qps * e.sendDepth()); err == nil {
		e.rcq, err = e.makeCQ(o.qps * e.receiveDepth())
	}
	if err != nil {
		return err
	}
	e.flows = make([]flow, o.qps)
	return nil
}

func (e *endpoint) makeCQ(depth int) (*verbs.CQ, error) {
	cq, err := e.dev.CreateCQ(depth, e.channel)
	if err != nil {
		return nil, fmt.Errorf("cannot create a completion queue of %d: %w; use fewer queue "+
			"pairs or a smaller -t", depth, err)
	}
	e.onClose(cq.Destroy)
	return cq, nil
}

// strideOf keeps the halves of a region on pairs of cache lines of their own.
func strideOf(size int) int { return (size + linePair - 1) &^ (linePair - 1) }

func (e *endpoint) sendDepth() int { return max(e.o.depth, latencyDepth) }

// receiveDepth leaves the sender a full depth ahead while completions of the
// last are handled.
func (e *endpoint) receiveDepth() int {
	if e.o.test.op != "send" {
		return 1
	}
	if !e.o.service.reliable() {
		return max(2*e.sendDepth(), unreliableDepth) // the sender does not wait for us
	}
	return 2 * e.sendDepth()
}

// qpInit are the attributes of every queue pair.
func (e *endpoint) qpInit() *verbs.QPInitAttr {
	return &verbs.QPInitAttr{
		Type: e.o.service.qpType(), SendCQ: e.scq, RecvCQ: e.rcq,
		Cap: ib.QPCap{
			MaxSendWR: uint32(e.sendDepth()), MaxRecvWR: uint32(e.receiveDepth()), MaxSendSGE: 1,
			MaxRecvSGE: 1, MaxInlineData: uint32(e.o.inline),
		},
	}
}

// createQPs makes the queue pairs, in INIT, and returns their addresses.
func (e *endpoint) createQPs() ([]QPAddr, error) {
	addrs := make([]QPAddr, len(e.flows))
	for i := range e.flows {
		qp, err := e.pd.CreateQP(e.qpInit())
		if err != nil {
			return nil, fmt.Errorf("cannot create queue pair %d: %w", i, err)
		}
		e.onClose(qp.Destroy)
		v := e.o.service
		attr := ib.QPAttr{State: ib.QPInit, PortNum: uint8(e.o.ibPort), AccessFlags: v.access(),
			QKey: qkey}
		if err := qp.Modify(&attr,
			ib.QPStateAttr|ib.QPPKeyIndex|ib.QPPort|initMask[v]); err != nil {
			return nil, err
		}
		e.flows[i].qp = qp
		addrs[i] = QPAddr{QPN: uint32(qp.QPN()), PSN: uint32(ib.NewPSN(rand.Uint32()))}
	}
	return addrs, nil
}

// offer describes this side to the peer.
func (e *endpoint) offer(qps []QPAddr) *Offer {
	return &Offer{
		GID: GIDText(e.sgid.GID), MTU: e.portMTU, QPs: qps, Port: e.cmPort,
		Addr: e.mr.Addr(), RKey: uint32(e.mr.RKey()), Len: e.mr.Length(), ReadDepth: e.rdAtom,
	}
}

// readsTo returns how many READs and atomics may be outstanding to a peer.
func (e *endpoint) readsTo(peer *Offer) uint8 {
	return min(e.rdAtom, cmp.Or(peer.ReadDepth, olderReadDepth))
}

// connectQPs brings the queue pairs to RTS towards the peer's.
func (e *endpoint) connectQPs(mine []QPAddr, peer *Offer) error {
	v, mtu := e.o.service, e.o.pathMTU(e.portMTU, peer.MTU)
	for i := range e.flows {
		qp := e.flows[i].qp
		rtr := ib.QPAttr{
			State: ib.QPRTR, PathMTU: mtu, DestQPN: ib.QPN(peer.QPs[i].QPN),
			RQPSN: ib.NewPSN(peer.QPs[i].PSN), AH: e.pathTo(peer),
			MaxDestRdAtomic: e.rdAtom, MinRNRTimer: minRNRTimer,
		}
		if err := qp.Modify(&rtr, ib.QPStateAttr|rtrMask[v]); err != nil {
			return fmt.Errorf("cannot connect to QPN 0x%06x at %s: %w", peer.QPs[i].QPN,
				ib.GID(peer.GID).Addr(), err)
		}
		rts := ib.QPAttr{State: ib.QPRTS, SQPSN: ib.PSN(mine[i].PSN), Timeout: ackTimeout,
			RetryCnt: retries, RNRRetry: retries, MaxRdAtomic: e.readsTo(peer)}
		if err := qp.Modify(&rts, ib.QPStateAttr|rtsMask[v]); err != nil {
			return err
		}
		if v == serviceUD {
			if err := e.sendTo(i, e.pathTo(peer), ib.QPN(peer.QPs[i].QPN), qkey); err != nil {
				return err
			}
		}
	}
	return nil
}

// pathTo is the way to the peer.
func (e *endpoint) pathTo(peer *Offer) ib.AHAttr {
	return ib.AHAttr{IsGlobal: true, PortNum: uint8(e.o.ibPort),
		GRH: ib.GRH{DGID: ib.GID(peer.GID), SGIDIndex: uint8(e.sgid.Index)}}
}

// sendTo is the destination of a queue pair's datagrams.
func (e *endpoint) sendTo(i int, path ib.AHAttr, qpn ib.QPN, key ib.QKey) error {
	ah, err := e.pd.CreateAH(&path)
	if err != nil {
		return fmt.Errorf("cannot reach %s: %w", path.GRH.DGID.Addr(), err)
	}
	e.onClose(ah.Destroy)
	f := &e.flows[i]
	f.ah, f.qpn, f.qkey = ah, qpn, key
	return nil
}

// checkPeer refuses an offer that does not suit ours.
func (e *endpoint) checkPeer(peer *Offer) error {
	switch {
	case len(peer.QPs) != len(e.flows):
		return fmt.Errorf("the peer has %d queue pairs, we have %d", len(peer.QPs), len(e.flows))
	case e.o.service == serviceUD && e.largest > peer.MTU:
		return fmt.Errorf("a datagram of %d bytes is more than the %d that the peer's port "+
			"carries; use -m %d", e.largest, peer.MTU, peer.MTU)
	case peer.Len < e.mr.Length():
		return fmt.Errorf("the peer offers %d bytes of memory where %d are needed", peer.Len,
			e.mr.Length())
	case e.o.pathMTU(e.portMTU, peer.MTU) == 0:
		return fmt.Errorf("the peer's port carries %d bytes a packet", peer.MTU)
	}
	return nil
}

// remote returns the address of the peer's receive half of a queue pair.
func (e *endpoint) remote(peer *Offer, i int) uint64 {
	return peer.Addr + uint64((2*i+1)*e.stride)
}

func (e *endpoint) sendHalf(i int) int    { return 2 * i * e.stride }
func (e *endpoint) receiveHalf(i int) int { return (2*i + 1) * e.stride }

// lastByte is the last byte of a message that the first queue pair received.
func (e *endpoint) lastByte(size int) *byte {
	return &e.mr.Bytes()[e.receiveHalf(0)+e.o.service.grh()+size-1]
}

func (e *endpoint) onClose(f func() error) { e.undo = append(e.undo, f) }

// close destroys the objects, the last first.
func (e *endpoint) close() {
	for i := len(e.undo) - 1; i >= 0; i-- {
		_ = e.undo[i]() // nothing is left to save
	}
	e.undo = nil
}
