// SPDX-License-Identifier: BSD-2-Clause

package qp

import (
	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/mem"
	"verbena/internal/queue"
)

// Completer takes work completions in order. A solicited completion wakes a
// consumer that asked for solicited events only.
type Completer interface {
	Push(wc *ib.WC, solicited bool) bool
}

// Counter counts work requests that complete, by their operation, also those that make no
// completion.
type Counter interface {
	Count(op ib.CompCntrOps, s ib.WCStatus, bytes uint32)
}

// RecvSource gives a responder its receive work requests: the queue pair's own receive queue or a
// shared one.
type RecvSource interface {
	Pop(dst *queue.RecvWQE) bool
	Len() int
}

// Config has the parameters of every machine. Immutable after New.
type Config struct {
	QPN   ib.QPN
	PD    mem.PD
	Mem   *mem.Table
	SQ    *queue.SendQueue
	RQ    RecvSource
	SRQ   bool           // RQ is shared: no credits, no flush of receives
	SRQPD mem.PD         // the domain of receives posted there, with SRQ
	Tags  *queue.TagList // the tagged receives of RQ; nil but for RC
	// ReadsTags says that only the machine posts to SQ, to READ the data of rendezvous.
	ReadsTags bool
	SendCQ    Completer
	RecvCQ    Completer
	SignalAll bool // every send work request makes a completion
	// Counter may be nil.
	Counter Counter
	// Congestion is the algorithm of a requester that has a window.
	Congestion congestion.Algorithm
	// Reorder, which may be nil, is the memory for packets that arrive before their turn.
	Reorder *mem.Budget
	// OnState, which may be nil, is called with each state when it is entered, before its effect on
	// posted work.
	OnState func(ib.QPState)
	// OnViolation, which may be nil, is called for each packet with a wrong Q_Key or P_Key.
	OnViolation func(qkey bool)
}
