// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"maps"
	"slices"

	"verbena/internal/engine"
)

// watchDevices begins to watch for devices whose interface goes away. Where the system does not
// report them there is nothing to stop.
func (m *manager) watchDevices() (stop func()) {
	stop, err := engine.WatchInterfaces(func(c engine.InterfaceChange) {
		if c.Event != engine.InterfaceGone {
			return
		}
		m.mu.Lock()
		m.removed = append(m.removed, c.NetDev)
		m.mu.Unlock()
		m.kick()
	})
	if err != nil {
		return func() {}
	}
	return stop
}

// deviceRemoved raises DeviceRemoval on the identifiers that are bound to the device of an
// interface.
func (m *manager) deviceRemoved(netdev string) {
	m.mu.Lock()
	ids := slices.Collect(maps.Keys(m.ids))
	m.mu.Unlock()
	for _, id := range ids {
		id.mu.Lock()
		if c := id.at.verbs; c != nil && c.Info().NetDev == netdev && id.state != stDestroyed {
			id.raise(Event{Type: DeviceRemoval})
		}
		id.mu.Unlock()
	}
}
