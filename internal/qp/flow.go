// SPDX-License-Identifier: BSD-2-Clause

package qp

// Flow has the quantities that the sender of a queue pair waits for.
type Flow struct {
	Outstanding int `json:"outstanding_packets"` // sent and not acknowledged
	// Credits is the number of SENDs that may begin because the peer has posted receives for them;
	// -1 if the peer does not say.
	Credits int `json:"credits"`
	// Retries and RNRRetries are left before the queue pair fails. 7 of the latter has no end.
	Retries    int `json:"retries_left"`
	RNRRetries int `json:"rnr_retries_left"`
}

// Flowing is a Machine that has a Flow.
type Flowing interface{ Flow() Flow }
