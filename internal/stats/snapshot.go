// SPDX-License-Identifier: BSD-2-Clause

package stats

import "time"

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
}

// Snapshot has the counters and devices of one process.
type Snapshot struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Version string    `json:"version"` // of Verbena's libraries in it
	Time    time.Time `json:"time"`    // when the counters were read
	Devices []Device  `json:"devices"`
}
