// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"net/netip"
	"time"

	"verbena/internal/congestion"
	"verbena/internal/qp"
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
	// Contexts are the numbers by which the objects below name theirs.
	Contexts []uint32 `json:"contexts,omitempty"`
	PDs      []PD     `json:"protection_domains,omitempty"`
	CQs      []CQ     `json:"completion_queues,omitempty"`
	SRQs     []SRQ    `json:"shared_receive_queues,omitempty"`
	MRs      []MR     `json:"memory_regions,omitempty"` // the first MostRegions
	Regions  int      `json:"memory_region_count,omitempty"`
}

// MostRegions bounds the memory regions of a context in a Snapshot.
const MostRegions = 4096

// PD is a protection domain. Its number, as those of all objects, is of its process.
type PD struct {
	PDN     uint32 `json:"pdn"`
	Context uint32 `json:"context"`
	Users   int    `json:"users"` // the objects in it
}

// CQ is a completion queue.
type CQ struct {
	CQN     uint32 `json:"cqn"`
	Context uint32 `json:"context"`
	Depth   int    `json:"depth"`
	Users   int    `json:"users"` // the queue pairs that complete to it
}

// SRQ is a shared receive queue.
type SRQ struct {
	SRQN    uint32 `json:"srqn"`
	Context uint32 `json:"context"`
	PDN     uint32 `json:"pdn"`
	XRC     bool   `json:"xrc,omitempty"`
	TM      bool   `json:"tag_matching,omitempty"`
	Recvs   int    `json:"recvs_posted"`
	Tags    int    `json:"tags_posted,omitempty"`
	Users   int    `json:"users"` // the queue pairs that take from it
}

// MR is a memory region, without its keys: those are secrets of the application.
type MR struct {
	MRN     uint32 `json:"mrn"`
	Context uint32 `json:"context"`
	PDN     uint32 `json:"pdn"`
	Length  uint64 `json:"length_bytes"`
}

// Identifier is a connection manager's: a listener or an end of a connection.
type Identifier struct {
	Device    string         `json:"device,omitempty"` // empty for all
	PortSpace string         `json:"port_space"`
	State     string         `json:"state"`
	QPN       uint32         `json:"qpn,omitempty"`
	Local     netip.AddrPort `json:"local,omitzero"`
	Peer      netip.AddrPort `json:"peer,omitzero"`
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
	PDN     uint32         `json:"pdn,omitempty"`
	SRQN    uint32         `json:"srqn,omitempty"` // of the shared queue that it takes from
	PathMTU int            `json:"path_mtu_bytes,omitempty"`
	SQPSN   uint32         `json:"sq_psn"` // of the next request to be sent
	RQPSN   uint32         `json:"rq_psn"` // of the next request expected
	// Migration is the state of path migration; empty for MIGRATED.
	Migration string `json:"path_migration,omitempty"`
	Sends     int    `json:"sends_posted"`
	Recvs     int    `json:"recvs_posted"` // 0 with a shared receive queue
	// Path holds what is measured on the way to the peer; nil with shared memory and NTB, where
	// nothing is, and without a peer.
	Path *congestion.Path `json:"path,omitempty"`
	// Flow is of RC over RoCE; nil for others, and without a peer.
	Flow     *qp.Flow  `json:"flow,omitempty"`
	Counters []Counter `json:"counters"` // those that are not 0
}

// Count returns the value of a counter.
func (q *QueuePair) Count(name string) uint64 { return count(q.Counters, name) }

// Count returns the value of a counter.
func (d *Device) Count(name string) uint64 { return count(d.Counters, name) }

func count(list []Counter, name string) uint64 {
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}

// Snapshot has the devices of one process, with their queue pairs and counters.
type Snapshot struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Version string    `json:"version"` // of Verbena's libraries in it
	Time    time.Time `json:"time"`    // when the counters were read
	// Ended has the time of the process's end, zero while it lives.
	Ended   time.Time `json:"ended,omitzero"`
	Devices []Device  `json:"devices"`
	// Ring is the size of the process's ring of packets, 0 without one: see Dump.
	Ring int `json:"pcap_ring_bytes,omitempty"`

	Identifiers []Identifier `json:"identifiers,omitempty"`
}
