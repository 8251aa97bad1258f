// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"maps"
	"slices"

	"verbena/internal/engine"
)

// deviceEvents are the events of identifiers by what has happened to their device's interface.
var deviceEvents = map[engine.InterfaceEvent]EventType{
	engine.InterfaceGone:     DeviceRemoval,
	engine.InterfaceHardware: AddrChange,
}

// watchDevices begins to watch for devices whose interface goes away, or changes its hardware
// address. Where the system does not report them there is nothing to stop.
func (m *manager) watchDevices() (stop func()) {
	stop, err := engine.WatchInterfaces(func(c engine.InterfaceChange) {
		if _, ok := deviceEvents[c.Event]; !ok {
			return
		}
		m.mu.Lock()
		m.changed = append(m.changed, c)
		m.mu.Unlock()
		m.kick()
	})
	if err != nil {
		return func() {}
	}
	return stop
}

// deviceChanged raises the event of a change on the identifiers that are bound to the device of an
// interface.
func (m *manager) deviceChanged(change engine.InterfaceChange) {
	m.mu.Lock()
	ids := slices.Collect(maps.Keys(m.ids))
	m.mu.Unlock()
	for _, id := range ids {
		id.mu.Lock()
		if c := id.at.verbs; c != nil && c.Info().NetDev == change.NetDev &&
			id.state != stDestroyed {
			id.raise(Event{Type: deviceEvents[change.Event]})
		}
		id.mu.Unlock()
	}
}
