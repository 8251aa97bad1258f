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
	qpn          uint32 // 0: of the device
}

func processOf(s *stats.Snapshot) process { return process{s.PID, s.Command} }

// note keeps the counters for the next call of of.
func (r *rates) note(all []stats.Snapshot) {
	*r = rates{at: map[process]time.Time{}, counts: map[counter]uint64{}}
	for i := range all {
		s := &all[i]
		if !s.Ended.IsZero() {
			continue // a living process may have its number and command
		}
		r.at[processOf(s)] = s.Time
		for _, d := range s.Devices {
			for _, c := range d.Counters {
				r.counts[counter{processOf(s), d.Name, c.Name, 0}] = c.Value
			}
			for _, q := range d.QueuePairs {
				for _, name := range []string{"sent_bytes", "rcvd_bytes"} {
					r.counts[counter{processOf(s), d.Name, name, q.QPN}] = q.Count(name)
				}
				r.counts[counter{processOf(s), d.Name, troubleName, q.QPN}] = troubleOf(q)
			}
		}
	}
}

// of returns how fast a counter has grown per second since note; ok is false if it was not there.
func (r *rates) of(s *stats.Snapshot, device string, c stats.Counter) (rate float64, ok bool) {
	return r.growth(s, counter{processOf(s), device, c.Name, 0}, c.Value)
}

// ofQueuePair returns a queue pair's bytes: how fast they have grown since note, or all of them.
func (r *rates) ofQueuePair(s *stats.Snapshot, device string, q stats.QueuePair,
	name string) string {
	n := q.Count(name)
	if rate, ok := r.growth(s, counter{processOf(s), device, name, q.QPN}, n); ok {
		return size(int64(rate), "B/s")
	}
	return size(int64(n), "B")
}

func (r *rates) growth(s *stats.Snapshot, c counter, now uint64) (rate float64, ok bool) {
	if !s.Ended.IsZero() {
		return 0, false
	}
	before, ok := r.counts[c]
	took := s.Time.Sub(r.at[c.of]).Seconds()
	if !ok || took <= 0 || now < before {
		return 0, false
	}
	return float64(now-before) / took, true
}
