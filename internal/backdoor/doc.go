// SPDX-License-Identifier: BSD-2-Clause

// Package backdoor lets packages of this module at what stands behind the
// objects of package verbs and is no part of the public API: rdmacm needs QP1 and
// brings queue pairs their streams, the C ABI posts one work request at a time and polls completion queues by
// itself. It holds no state but the functions that package verbs puts here when
// it is initialised.
//
// Objects of verbs, which imports this package, are passed as any.
package backdoor

import (
	"io"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/queue"
)

// Engine returns what a *verbs.Context runs on.
var Engine func(context any) *engine.Engine

// CaptureTo returns a verbs.Option as WithCapture does, for a file that open opens each
// time when the process opens its first context.
var CaptureTo func(open func() (io.WriteCloser, error)) any

// NTB returns the link of a *verbs.Context of a device of kind ntb, nil of others.
var NTB func(context any) *engine.NTB

// CreateCQ returns a *verbs.CQ of a *verbs.Context for depth completions, over
// memory that the caller polls by itself, as queue.NewCQIn has it. notify,
// which may be nil, is called for every event that was asked for; it must not
// block nor call back.
var CreateCQ func(context any, r *queue.Ring, slots []ib.WC, depth int, notify func()) (any, error)

// ResizeCQ moves the completions of such a queue to other memory.
var ResizeCQ func(cq any, depth int, slots []ib.WC) error

// ConnectStream gives a *verbs.QP of iWARP, which is in INIT, a stream on which
// everything is agreed; it goes to RTS. On error it stays in INIT and the stream
// is reset.
var ConnectStream func(qp any, s *engine.Stream, p engine.Connected) error

// DisconnectStream closes the stream of a *verbs.QP of iWARP behind all that is
// posted. Connected.OnClose tells when both ends are done.
var DisconnectStream func(qp any) error

// TRPConn returns what a *verbs.QP of a device of kind trp is connected by. It
// goes to RTS with its association.
var TRPConn func(qp any) (*engine.Conn, error)

// PosterOf returns the Poster[verbs.SendWR] of a *verbs.QP.
var PosterOf func(qp any) any

// NumberedQP returns the *verbs.QP of a number in a *verbs.Context's process, nil if there is none.
var NumberedQP func(context any, n ib.QPN) any

// Arrived takes what has arrived, and returns what reports whether all has been polled that is
// in the completion queues of a *verbs.QP then. The caller holds no lock that events take.
var Arrived func(qp any) (polled func() bool)

// OutsideReceives has the queue pair that is made from a *verbs.QPInitAttr take its
// receives from a queue that another posts into, made for what the attributes
// say. PostRecv does not go with it.
var OutsideReceives func(init any, q *queue.OutsideRecvQueue)

// CreateSRQ is CreateSRQ of a *verbs.PD for such a queue, or with an XRC domain and
// its completion queue CreateXRCSRQ. attr is what q was made for.
var CreateSRQ func(pd any, attr ib.SRQAttr, xrcd, cq any, q *queue.OutsideRecvQueue) (any, error)

// ModifySRQ is Modify of such a *verbs.SRQ; slots are where the receives move to
// with ib.SRQMaxWR. Nobody posts meanwhile.
var ModifySRQ func(srq any, attr ib.SRQAttr, mask ib.SRQAttrMask, slots []ib.SGE) error

// A Poster posts work requests of a queue pair one by one, where
// verbs.QP.PostSend wants them all at once. It allocates nothing and keeps no
// pointer.
type Poster[S any] interface {
	// BeginSend locks the queue pair for Send; with an error it does not.
	BeginSend() error
	Send(*S) error
	// Ring unlocks the queue pair and starts what was sent.
	Ring()
	// ReceivesTold takes notice of receives in an OutsideRecvQueue that were posted
	// when it was no more free to.
	ReceivesTold()
}
