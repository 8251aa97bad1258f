package roce

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	wire "verbena/internal/wire/roce"
)

// Machine is one queue pair's protocol; see the package comment for the
// contract.
type Machine interface {
	HandleInput(now monotime.Time, p *wire.Packet, m *Meta)
	Doorbell(now monotime.Time)
	HandleTimeout(now monotime.Time)
	NextTimeout() monotime.Time
	PollOutput(now monotime.Time, b *Burst) bool
	// Patient reports whether all that PollOutput would return can wait for the
	// application, which has completions to look at and may answer. psn names
	// what is to be sent: while it stays the same nothing new has come.
	Patient() (psn ib.PSN, ok bool)
	PollEvent() (ib.EventType, bool)
	// Modify applies attributes that the object layer has checked. path is the
	// resolved address vector where mask has QPAV.
	Modify(now monotime.Time, attr *ib.QPAttr, mask ib.QPAttrMask, path *Path)
	// Query fills the attributes the machine owns.
	Query(attr *ib.QPAttr)
	State() ib.QPState
	Counters() *Counters
}

// Completer takes work completions in order. A solicited completion wakes a
// consumer that asked for solicited events only.
type Completer interface {
	Push(wc *ib.WC, solicited bool) bool
}

// RecvSource is where a responder takes receive work requests: the queue
// pair's own receive queue or a shared one.
type RecvSource interface {
	Pop(dst *queue.RecvWQE) bool
	Len() int
}

// Config is what every machine is made from. Immutable after New.
type Config struct {
	QPN       ib.QPN
	PD        mem.PD
	Mem       *mem.Table
	SQ        *queue.SendQueue
	RQ        RecvSource
	SRQ       bool // RQ is shared: no credits, no flush of receives
	SendCQ    Completer
	RecvCQ    Completer
	SignalAll bool // every send work request makes a completion
}
