// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"strconv"
	"strings"
)

// printable replaces what a terminal would obey in the strings of a snapshot: any program chooses
// its command, and an interface has the name that it was given.
func (s *Snapshot) printable() {
	clean(&s.Command, &s.Version)
	for i := range s.Devices {
		d := &s.Devices[i]
		clean(&d.Name, &d.Kind, &d.NetDev)
		cleanCounters(d.Counters)
		for j := range d.QueuePairs {
			q := &d.QueuePairs[j]
			clean(&q.Type, &q.State, &q.Via, &q.Migration)
			cleanCounters(q.Counters)
		}
	}
	for i := range s.Identifiers {
		id := &s.Identifiers[i]
		clean(&id.Device, &id.PortSpace, &id.State)
	}
}

func cleanCounters(list []Counter) {
	for i := range list {
		clean(&list[i].Name)
	}
}

func clean(all ...*string) {
	for _, s := range all {
		*s = strings.Map(func(r rune) rune {
			if !strconv.IsPrint(r) {
				return '?'
			}
			return r
		}, *s)
	}
}
