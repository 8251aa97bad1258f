// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import "verbena/internal/fsm"

// State is the state of a connection.
type State uint8

// States of a connection.
//
// Spec: IBTA vol. 1, 12.9.5 to 12.9.7.
const (
	// Idle: just made; left at once.
	Idle State = iota
	// ReqSent: REQ is out and repeated; left by REP, REJ, MRA or the last retry.
	ReqSent
	// MRAReqRcvd: the peer has our REQ and asked for time; as ReqSent.
	MRAReqRcvd
	// ReqRcvd: the application has the request; left by Accept or Reject.
	ReqRcvd
	// MRAReqSent: as ReqRcvd, and the peer was asked for patience.
	MRAReqSent
	// RepSent: REP is out and repeated; left by RTU, REJ, MRA, data or the last retry.
	RepSent
	// MRARepRcvd: the peer has our REP and asked for time; as RepSent.
	MRARepRcvd
	// RepRcvd: the application has the reply; left by Establish or Reject.
	RepRcvd
	// MRARepSent: as RepRcvd, and the peer was asked for patience.
	MRARepSent
	// Established: data may flow; left by DREQ from either side, or by Lose.
	Established
	// DreqSent: DREQ is out and repeated; left by DREP, DREQ or the last retry.
	DreqSent
	// DreqRcvd: the application knows; left by Disconnect, which sends DREP.
	DreqRcvd
	// Timewait: packets of the connection may be under way still; a DREQ is
	// answered again. Left when the time is over.
	Timewait
	// Rejected: our REJ may have been lost; a duplicate REQ gets it again. Left
	// when the time is over.
	Rejected
	// SIDRReqSent: SIDR_REQ is out and repeated; left by SIDR_REP.
	SIDRReqSent
	// SIDRReqRcvd: the application has the request; left by ReplySIDR.
	SIDRReqRcvd
	// SIDRAnswered: a duplicate SIDR_REQ gets the answer again; left when the
	// time is over.
	SIDRAnswered
	// Closed: nothing of the connection is left but its ConnID.
	Closed

	numStates
)

var stateNames = [numStates]string{
	"Idle", "ReqSent", "MRAReqRcvd", "ReqRcvd", "MRAReqSent", "RepSent", "MRARepRcvd", "RepRcvd",
	"MRARepSent", "Established", "DreqSent", "DreqRcvd", "Timewait", "Rejected", "SIDRReqSent",
	"SIDRReqRcvd", "SIDRAnswered", "Closed",
}

func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return "unknown"
}

// transitions has the states that may follow each state.
var transitions = fsm.Table[State]{
	Idle:         fsm.SetOf(ReqSent, ReqRcvd, SIDRReqSent, SIDRReqRcvd),
	ReqSent:      fsm.SetOf(MRAReqRcvd, RepRcvd, Timewait, Closed),
	MRAReqRcvd:   fsm.SetOf(MRAReqRcvd, RepRcvd, Timewait, Closed),
	ReqRcvd:      fsm.SetOf(MRAReqSent, RepSent, Rejected, Closed),
	MRAReqSent:   fsm.SetOf(MRAReqSent, RepSent, Rejected, Closed),
	RepSent:      fsm.SetOf(MRARepRcvd, Established, Timewait, Rejected, Closed),
	MRARepRcvd:   fsm.SetOf(MRARepRcvd, Established, Timewait, Rejected, Closed),
	RepRcvd:      fsm.SetOf(MRARepSent, Established, Timewait),
	MRARepSent:   fsm.SetOf(MRARepSent, Established, Timewait),
	Established:  fsm.SetOf(DreqSent, DreqRcvd, Timewait),
	DreqSent:     fsm.SetOf(Timewait),
	DreqRcvd:     fsm.SetOf(Timewait),
	Timewait:     fsm.SetOf(Closed),
	Rejected:     fsm.SetOf(Closed),
	SIDRReqSent:  fsm.SetOf(Closed),
	SIDRReqRcvd:  fsm.SetOf(SIDRAnswered, Closed),
	SIDRAnswered: fsm.SetOf(Closed),
}

// Groups of states that messages and commands ask for.
var (
	awaitingReply  = fsm.SetOf(ReqSent, MRAReqRcvd)
	requested      = fsm.SetOf(ReqRcvd, MRAReqSent)
	awaitingReady  = fsm.SetOf(RepSent, MRARepRcvd)
	replied        = fsm.SetOf(RepRcvd, MRARepSent)
	halfOpenStates = requested | awaitingReady
	onlyWaiting    = fsm.SetOf(Idle, Timewait, Rejected, SIDRAnswered, Closed)
)
