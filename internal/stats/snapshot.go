// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"net/netip"
	"time"

	"verbena/internal/congestion"
)

// Counter is a named total that only grows.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Device is one open device of a process.
type Device struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	NetDev string `json:"netdev,omitempty"`
	// GUID and Active are of an NTB link, where only the process that has it
	// open knows whether its port is active.
	GUID     uint64    `json:"guid,omitempty"`
	Active   bool      `json:"active,omitempty"`
	Counters []Counter `json:"counters"`
	// QueuePairs are those that the device has now, by their number.
	QueuePairs []QueuePair `json:"queue_pairs"`
}

// QueuePair is one queue pair of a device.
type QueuePair struct {
	QPN   uint32 `json:"qpn"`
	Type  string `json:"type"`
	State string `json:"state"`
	// Via names the carrier of its packets: udp, tcp, shared-memory or ntb. It is empty before
	// there is a peer.
	Via     string         `json:"via,omitempty"`
	Local   netip.AddrPort `json:"local,omitzero"`
	Peer    netip.AddrPort `json:"peer,omitzero"`
	PeerQPN uint32         `json:"peer_qpn,omitempty"`
	PathMTU int            `json:"path_mtu_bytes,omitempty"`
	SQPSN   uint32         `json:"sq_psn"` // of the next request to be sent
	RQPSN   uint32         `json:"rq_psn"` // of the next request expected
	Sends   int            `json:"sends_posted"`
	Recvs   int            `json:"recvs_posted"` // 0 with a shared receive queue
	// Path holds what is measured on the way to the peer; nil with shared memory and NTB, where
	// nothing is, and without a peer.
	Path     *congestion.Path `json:"path,omitempty"`
	Counters []Counter        `json:"counters"` // those that are not 0
}

// Snapshot has the devices of one process, with their queue pairs and counters.
type Snapshot struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Version string    `json:"version"` // of Verbena's libraries in it
	Time    time.Time `json:"time"`    // when the counters were read
	Devices []Device  `json:"devices"`
}
