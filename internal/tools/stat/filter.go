// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"net/netip"
	"slices"

	"verbena/internal/stats"
)

// filter selects what is shown. The zero value selects everything.
type filter struct {
	device string
	pid    int
	peer   netip.Addr // queue pairs with another peer, and those without, are left out
}

// of returns the processes, devices and queue pairs that the filter selects. A device is left out
// if a peer is asked for and none of its queue pairs has it.
func (f *filter) of(all []stats.Snapshot) []stats.Snapshot {
	var some []stats.Snapshot
	for _, s := range all {
		if f.pid != 0 && s.PID != f.pid {
			continue
		}
		var devices []stats.Device
		for _, d := range s.Devices {
			if f.device != "" && d.Name != f.device {
				continue
			}
			if f.peer.IsValid() {
				d.QueuePairs = slices.DeleteFunc(slices.Clone(d.QueuePairs),
					func(q stats.QueuePair) bool { return q.Peer.Addr().WithZone("") != f.peer })
				if len(d.QueuePairs) == 0 {
					continue
				}
			}
			devices = append(devices, d)
		}
		if devices != nil {
			s.Devices = devices
			some = append(some, s)
		}
	}
	return some
}
