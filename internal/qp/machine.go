// SPDX-License-Identifier: BSD-2-Clause

package qp

import (
	"verbena/ib"
	"verbena/internal/monotime"
)

// Machine is the protocol of one queue pair as far as all transports are alike. The engine and
// package verbs use it. The transport carries its packets or its bytes, and handles the parts of
// Modify beside the attributes.
type Machine interface {
	// Doorbell handles posted work.
	Doorbell(now monotime.Time)
	HandleTimeout(now monotime.Time)
	// NextTimeout returns when HandleTimeout is due; the caller asks last.
	NextTimeout() monotime.Time
	PollEvent() (ib.EventType, bool)
	// Cause returns the reason of the last failure that made an event, if it is known.
	Cause() ib.VendorErr
	// Query fills the attributes the machine owns.
	Query(attr *ib.QPAttr)
	State() ib.QPState
	// Received counts the messages that completed a receive; it wraps.
	Received() uint32
	// AppendCounts appends the queue pair's counts, in the order of the names
	// that the machine's package gives.
	AppendCounts(counts []uint64) []uint64
}
