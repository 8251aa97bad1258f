// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"

	"verbena/ib"
)

// EventType is a connection manager event: rdma_cm_event_type.
type EventType uint8

// Events.
const (
	AddrResolved    EventType = 0 // ResolveAddr found the device
	AddrError       EventType = 1 // ResolveAddr did not
	RouteResolved   EventType = 2 // ResolveRoute found the path
	RouteError      EventType = 3 // ResolveRoute did not
	ConnectRequest  EventType = 4 // a peer asks; Event.ID is new, Event.ListenID the listener
	ConnectResponse EventType = 5 // active, no QP on the ID: the peer accepted; call Establish
	ConnectError    EventType = 6 // the peer accepted, but the QP could not be set up
	// the peer does not answer; datagrams: it does not serve the port
	Unreachable EventType = 7
	Rejected    EventType = 8 // the peer refused
	Established EventType = 9 // the connection is up; datagrams: Event.UD holds
	// the connection is over; completions that came before may be polled first, for 100 ms
	Disconnected EventType = 10
	// the network interface that the ID is bound to is gone: destroy the ID (Linux)
	DeviceRemoval  EventType = 11
	MulticastJoin  EventType = 12 // JoinMulticast did; Event.Group and UD hold
	MulticastError EventType = 13 // JoinMulticast did not; Event.Group holds
	// the network interface that the ID is bound to has another hardware address (Linux)
	AddrChange   EventType = 14
	TimewaitExit EventType = 15 // the QP of the connection may be used again
)

var eventNames = [...]string{
	"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR", "RDMA_CM_EVENT_ROUTE_RESOLVED",
	"RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
	"RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_REJECTED",
	"RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED", "RDMA_CM_EVENT_DEVICE_REMOVAL",
	"RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE",
	"RDMA_CM_EVENT_TIMEWAIT_EXIT",
}

// String returns the name that rdma_event_str(3) returns.
func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return "UNKNOWN EVENT"
}

// Event is a connection manager event: rdma_cm_event.
type Event struct {
	Type     EventType
	ID       *ID
	ListenID *ID // of ConnectRequest
	// Err is why, for events of a failure: a *RejectedError, a *UnservedError, or an error that
	// wraps ETIMEDOUT or that a call returned.
	Err error
	// PrivateData is the peer's, padded with zeros to the length of the message's field.
	PrivateData []byte
	Conn        ConnParam // of ConnectRequest, ConnectResponse and Established of connections
	UD          UDParam   // of ConnectRequest and Established of datagrams, and of MulticastJoin
	// Group is the multicast group of MulticastJoin and MulticastError.
	Group netip.Addr
}

// ConnParam has the parameters of a connection: rdma_conn_param. In an event they are the peer's,
// seen from here: ResponderResources is the number that it wants of us, InitiatorDepth the number
// that it will serve.
type ConnParam struct {
	PrivateData []byte
	// ResponderResources limits the READs and atomics of the peer that are served at once,
	// InitiatorDepth those of ours that may be outstanding. MaxRdAtomic stands for as many as the
	// device does, or as the peer asked for.
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RetryCount         uint8  // 0 to 7; of Connect only, it holds for both sides
	RNRRetryCount      uint8  // 0 to 6; 7 is for ever. It governs the peer's sends
	SRQ                bool   // ignored where the ID has a QP
	QPN                ib.QPN // ignored where the ID has a QP
	// ECE is not sent over iWARP. Its VendorID has 24 bits; an acceptance has the peer's.
	ECE    ib.ECE
	QPType ib.QPType // of QPN, Connect only; zero is the ID's, RC if that is open
}

// MaxRdAtomic in ConnParam stands for the most: RDMA_MAX_RESP_RES and
// RDMA_MAX_INIT_DEPTH.
const MaxRdAtomic = 0xff

// UDParam is the address of a datagram queue pair: rdma_ud_param.
type UDParam struct {
	PrivateData []byte
	AH          ib.AHAttr // of Established and MulticastJoin: for verbs.PD.CreateAH
	QPN         ib.QPN
	QKey        ib.QKey
}

// UDQKey is the Q_Key of datagram queue pairs: RDMA_UDP_QKEY.
const UDQKey ib.QKey = 0x01234567
