// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// Params holds the peer's values from its REQ or REP, seen from here.
type Params struct {
	Service    cm.TransportService
	RemoteGUID ib.GUID
	RemoteQPN  ib.QPN
	RemotePSN  ib.PSN // the first it expects of us
	PathMTU    ib.MTU
	// ResponderResources is the number of READs and atomics that the peer wants to have outstanding
	// to us. InitiatorDepth is the number of ours that it serves.
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RetryCount         uint8 // of a REQ
	RNRRetryCount      uint8
	SRQ                bool
	ECE                ib.ECE
	TrafficClass       uint8  // of a REQ
	FlowLabel          uint32 // of a REQ
}

// ConnectParams are the caller's side of a connection. Zero fields mean zero
// unless a default is named.
type ConnectParams struct {
	Path               Path
	ServiceID          cm.ServiceID
	Service            cm.TransportService // RC, UC or, for XRC, extended
	QPN                ib.QPN
	PSN                ib.PSN // the first we expect of the peer
	PathMTU            ib.MTU
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RetryCount         uint8 // 0 to 7
	RNRRetryCount      uint8 // 0 to 7
	SRQ                bool
	ECE                ib.ECE
	TrafficClass       uint8
	FlowLabel          uint32
	HopLimit           uint8  // default 64
	PrivateData        []byte // at most 92 bytes, an IP header included
	ResponseTimeout    uint8  // for either side's answers, 4.096 µs × 2^n; default 20, 4.3 s
	MaxCMRetries       uint8  // default 15
	ACKTimeout         uint8  // of the QPs; default 17, 0.54 s
}

// AcceptParams are the accepting side of a connection.
type AcceptParams struct {
	QPN                ib.QPN
	PSN                ib.PSN // the first we expect of the peer
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RNRRetryCount      uint8
	SRQ                bool
	ECE                ib.ECE
	PrivateData        []byte // at most 196 bytes
}

// QPParams holds the values for programming a queue pair, as both sides have agreed.
type QPParams struct {
	Path            Path
	Service         cm.TransportService
	DestQPN         ib.QPN
	RQPSN           ib.PSN
	SQPSN           ib.PSN
	PathMTU         ib.MTU
	MaxRdAtomic     uint8 // as initiator
	MaxDestRdAtomic uint8 // as responder
	Timeout         uint8 // local ACK time-out code
	RetryCnt        uint8
	RNRRetry        uint8
	TrafficClass    uint8
	FlowLabel       uint32
}

// Defaults of a REQ, as Linux's rdma_cm has them.
const (
	defaultResponseTimeout = 20
	defaultMaxCMRetries    = 15
	defaultACKTimeout      = 17
	defaultHopLimit        = 64
	pathRate10Gbps         = 3 // of no meaning over Ethernet
)

// Bounds on the times that a peer may name.
const (
	minWaitCode        = 14 // 67 ms: no storm of retries
	maxResponseCode    = 22 // 17 s a try
	maxServiceCode     = 24 // 69 s for one MRA, as Linux asks for
	maxTimewaitCode    = 20 // 4.3 s
	mraServiceTimeout  = 24
	timeUnit           = 4096 * monotime.Nanosecond
	maxCMRetriesMask   = 0x0f
	invalidQPNsBelow   = 2 // QP0 and QP1 never belong to a connection
	defaultMaxConns    = 1 << 16
	defaultMaxHalfOpen = 4096
	defaultBacklog     = 1024
)

// wait is the time that a 5-bit code stands for, with the code held in bounds.
func wait(code, lowest, highest uint8) monotime.Duration {
	return timeUnit << min(max(code, lowest), highest)
}

// combineACKTimeout returns the code for a path's round trip and the peer's own
// delay together, each given as a code. A quarter more or less does not count:
// the time-out is a multiple of either.
func combineACKTimeout(path, delay uint8) uint8 {
	hi, lo := max(path, delay), min(path, delay)
	if lo+1 >= hi {
		hi++
	}
	return min(hi, 31)
}
