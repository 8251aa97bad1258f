// SPDX-License-Identifier: BSD-2-Clause

package ntb

import "encoding/binary"

// CQEBytes is the size of a CQE.
const CQEBytes = 16

// Status is the result of a WQE.
type Status uint16

// Statuses. Those up to StatusNotReady are no end: the requester tries again
// from that WQE on, in a new generation.
const (
	StatusDone     Status = iota
	StatusRNR             // no receive is posted; Timer says when to come again
	StatusNotReady        // the queue pair does not receive: not yet, or it has failed
	StatusInvalid         // a request that cannot be, or that the queue pair does not grant
	StatusAccess          // key, domain, rights or bounds
	StatusOp              // the peer could not carry it out

	numStatuses
)

var statusNames = [numStatuses]string{"done", "receiver not ready", "queue pair not ready",
	"invalid request", "access error", "operational error"}

func (s Status) String() string {
	if s < numStatuses {
		return statusNames[s]
	}
	return "unknown"
}

// A CQE answers the WQE of the same index.
type CQE struct {
	Index  Index
	Status Status
	Timer  uint8  // StatusRNR: code of the RNR timer table
	Orig   uint64 // atomics: the word as it was
}

// ParseCQE reads a CQE.
func ParseCQE(b []byte) (c CQE, rest []byte, ok bool) {
	if len(b) < CQEBytes {
		return CQE{}, b, false
	}
	c = CQE{
		Index:  Index(binary.LittleEndian.Uint32(b)),
		Status: Status(binary.LittleEndian.Uint16(b[4:])),
		Timer:  b[6],
		// reserved (8)
		Orig: binary.LittleEndian.Uint64(b[8:]),
	}
	if c.Status >= numStatuses || c.Timer > 31 {
		return CQE{}, b, false
	}
	return c, b[CQEBytes:], true
}

// Append appends the bytes of c to b.
func (c CQE) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Index))
	b = binary.LittleEndian.AppendUint16(b, uint16(c.Status))
	b = append(b, c.Timer, 0)
	return binary.LittleEndian.AppendUint64(b, c.Orig)
}
