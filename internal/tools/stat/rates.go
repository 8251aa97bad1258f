// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"time"

	"verbena/internal/stats"
)

// rates holds the counters of the snapshots before. The zero value has none.
type rates struct {
	at     map[process]time.Time
	counts map[counter]uint64
}

// process identifies a process, also of another container.
type process struct {
	pid     int
	command string
}

type counter struct {
	of           process
	device, name string
}

func processOf(s *stats.Snapshot) process { return process{s.PID, s.Command} }

// note keeps the counters for the next call of of.
func (r *rates) note(all []stats.Snapshot) {
	*r = rates{at: map[process]time.Time{}, counts: map[counter]uint64{}}
	for i := range all {
		s := &all[i]
		r.at[processOf(s)] = s.Time
		for _, d := range s.Devices {
			for _, c := range d.Counters {
				r.counts[counter{processOf(s), d.Name, c.Name}] = c.Value
			}
		}
	}
}

// of returns how fast a counter has grown per second since note; ok is false if it was not there.
func (r *rates) of(s *stats.Snapshot, device string, c stats.Counter) (rate float64, ok bool) {
	p := processOf(s)
	before, ok := r.counts[counter{p, device, c.Name}]
	took := s.Time.Sub(r.at[p]).Seconds()
	if !ok || took <= 0 || c.Value < before {
		return 0, false
	}
	return float64(c.Value-before) / took, true
}
