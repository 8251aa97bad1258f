// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	wire "verbena/internal/wire/roce"
)

// Machine is one queue pair's protocol; see the package comment for the
// contract.
type Machine interface {
	qp.Machine
	HandleInput(now monotime.Time, p *wire.Packet, m *Meta)
	PollOutput(now monotime.Time, b *Burst) bool
	// AckMayWait reports whether all that PollOutput would return can wait for the application,
	// which has completions to look at and may answer. psn identifies the pending output: while it
	// stays the same, nothing new has come.
	AckMayWait() (psn ib.PSN, ok bool)
	// Modify applies attributes that the object layer has checked. path is the
	// resolved address vector where mask has QPAV.
	Modify(now monotime.Time, attr *ib.QPAttr, mask ib.QPAttrMask, path *Path)
	// SetAlternate sets the path that the next modification with QPAltPath loads.
	SetAlternate(path *Path)
	// CurrentPath returns the path, which migration changes; nil without one.
	CurrentPath() *Path
	Counters() *Counters
	// PathState returns the measurements of the path to the peer.
	PathState() congestion.Path
}

// Acknowledged is a Machine whose peer acknowledges packets, and whose caller may know that the
// peer's process lives.
type Acknowledged interface {
	Machine
	// HandleRun takes a run whose ICRCs are right, as HandleInput takes its packets one by one. p is
	// the first one, and is written to.
	HandleRun(now monotime.Time, p *wire.Packet, m *Meta, run Run)
	// ACKTimer returns when HandleTimeout will act on an acknowledgement that has not
	// come, Never if none is waited for.
	ACKTimer() monotime.Time
	// PutOff sets ACKTimer anew: the peer's process lives. behind is set if it has not come to the
	// packets sent.
	PutOff(now monotime.Time, behind bool)
	// Postpone sets ACKTimer anew: the caller has too many time-outs to act on.
	Postpone(now monotime.Time)
	// PeerGone handles the end of the peer's process.
	PeerGone(now monotime.Time)
	// Discard gives back the memory that the machine has taken from Config.Reorder. It is the last
	// call.
	Discard()
}

// Datagrams is a Machine whose packets have a destination each.
type Datagrams interface {
	Machine
	// Next returns where the packet goes that PollOutput would make next: by a path, to a queue
	// pair. ok is false if there is none. path is nil if the packet cannot be sent; PollOutput
	// completes its work request with an error.
	Next() (path *Path, dst ib.QPN, ok bool)
}

// Config has the parameters of every machine, on any transport.
type Config = qp.Config
