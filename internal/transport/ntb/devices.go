// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"slices"
	"sync"

	"verbena/internal/engine"
)

// devices are those of an engine.
type devices struct {
	engine.BaseComponent
	eng *engine.Engine // immutable

	mu   sync.Mutex // a leaf but for the engine's
	list []*Device  // replaced under mu, never changed in place
}

func devicesOf(e *engine.Engine) *devices {
	return engine.ComponentOf(e, func(e *engine.Engine) *devices { return &devices{eng: e} })
}

func (d *devices) add(l *Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(slices.Clone(d.list), l)
	var nodes []int
	for _, l := range d.list {
		if l.endpoint.OnNode {
			nodes = append(nodes, l.endpoint.Node)
		}
	}
	if nodes != nil { // one goroutine works all links: where any of them is
		d.eng.RunOn(nodes)
	}
}

func (d *devices) remove(l *Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = slices.DeleteFunc(slices.Clone(d.list), func(o *Device) bool { return o == l })
}

// AppendCounts implements engine.Component.
func (d *devices) AppendCounts(a *engine.DeviceCounters, list []engine.Counter) []engine.Counter {
	d.mu.Lock()
	devices := d.list
	d.mu.Unlock()
	for _, l := range devices {
		if l.counters == a {
			list = append(list, l.counts()...)
		}
	}
	return list
}
