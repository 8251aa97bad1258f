// SPDX-License-Identifier: BSD-2-Clause

package iwcm

import "verbena/internal/iwarp/mpa"

// Fault is why a connection did not come about, or ended.
type Fault uint8

// Faults.
const (
	FaultNone        Fault = iota
	FaultRefused           // nobody listens at the port
	FaultUnreachable       // no route, or the network says so
	FaultTimeout           // the peer does not speak
	FaultReset             // the stream ended before the connection was up, or broke
	FaultProtocol          // the peer does not speak MPA, or out of turn
	FaultRevision          // of MPA, in common
	FaultDepths            // the peer will ask for more READs at a time than are served
	FaultRTR               // no ready-to-receive kind in common
	FaultCrowded           // it gave way to a younger one that had not asked either
	FaultLocal             // the queue pair could not be given the stream
	numFaults
)

var faultNames = [numFaults]string{
	"none", "refused", "unreachable", "timeout", "reset", "protocol", "revision", "depths", "rtr",
	"crowded", "local",
}

func (f Fault) String() string { return faultNames[f] }

// faultOf maps the reasons of package mpa to faults.
var faultOf = map[mpa.Reason]Fault{
	mpa.ReasonTimeout: FaultTimeout, mpa.ReasonClosed: FaultReset,
	mpa.ReasonMalformed: FaultProtocol, mpa.ReasonEarly: FaultProtocol,
	mpa.ReasonRevision: FaultRevision, mpa.ReasonInsufficient: FaultDepths,
	mpa.ReasonNoRTR: FaultRTR,
}
