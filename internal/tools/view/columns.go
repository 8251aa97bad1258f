// SPDX-License-Identifier: BSD-2-Clause

package view

import "verbena/internal/timeline"

func addPackets(r *rows, p *timeline.Packets) {
	n := p.Len()
	r.f64("packets", "time", n, func(i int) float64 { return float64(p.Time[i]) })
	for _, c := range []struct {
		name   string
		values []uint32
	}{{"number", p.Number}, {"payload", p.Payload}, {"length", p.Length}, {"op", p.Op},
		{"rtt", p.RTT}, {"inFlight", p.InFlight}, {"serial", p.Serial}} {
		r.u32("packets", c.name, n, of(c.values))
	}
	if p.Flight != nil {
		r.u32("packets", "flight", n, of(p.Flight))
	}
	r.u8("packets", "kind", n, func(i int) uint8 { return uint8(p.Kind[i]) })
	r.u8("packets", "flags", n, of(p.Flags))
}

// addOps adds the operations and returns the table of their reasons.
func addOps(r *rows, list []timeline.Op) []string {
	n := len(list)
	reasons, numbers := []string{""}, map[string]uint32{"": 0}
	for i := range list {
		if _, ok := numbers[list[i].Reason]; !ok {
			numbers[list[i].Reason] = uint32(len(reasons))
			reasons = append(reasons, clean(list[i].Reason))
		}
	}
	r.f64("ops", "start", n, func(i int) float64 { return float64(list[i].Start) })
	r.f64("ops", "end", n, func(i int) float64 { return float64(list[i].End) })
	r.f64("ops", "bytes", n, func(i int) float64 { return float64(list[i].Bytes) })
	r.u32("ops", "number", n, func(i int) uint32 { return list[i].Number })
	r.u32("ops", "packets", n, func(i int) uint32 { return list[i].Packets })
	r.u32("ops", "repeated", n, func(i int) uint32 { return list[i].Repeated })
	r.u32("ops", "waited", n, func(i int) uint32 { return list[i].Waited })
	r.u32("ops", "posted", n, func(i int) uint32 { return list[i].Posted })
	r.u32("ops", "completed", n, func(i int) uint32 { return list[i].Completed })
	r.u32("ops", "reason", n, func(i int) uint32 { return numbers[list[i].Reason] })
	r.u8("ops", "operation", n, func(i int) uint8 { return uint8(list[i].Operation) })
	r.u8("ops", "status", n, func(i int) uint8 { return uint8(list[i].Status) })
	r.u8("ops", "ofB", n, func(i int) uint8 { return bit(list[i].OfB) })
	return reasons
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func addSamples(r *rows, list []timeline.Sample) {
	n := len(list)
	r.f64("samples", "time", n, func(i int) float64 { return float64(list[i].Time) })
	for _, c := range []struct {
		name string
		of   func(s *timeline.Sample) uint64
	}{
		{"rtt", func(s *timeline.Sample) uint64 { return s.RTT }},
		{"window", func(s *timeline.Sample) uint64 { return s.Window }},
		{"pace", func(s *timeline.Sample) uint64 { return s.Pace }},
		{"inFlight", func(s *timeline.Sample) uint64 { return s.InFlight }},
		{"lost", func(s *timeline.Sample) uint64 { return s.Lost }},
		{"repeated", func(s *timeline.Sample) uint64 { return s.Repeated }},
		{"marked", func(s *timeline.Sample) uint64 { return s.Marked }},
		{"notices", func(s *timeline.Sample) uint64 { return s.Notices }},
	} {
		r.f64("samples", c.name, n, func(i int) float64 { return float64(c.of(&list[i])) })
	}
	r.u8("samples", "ofB", n, func(i int) uint8 { return bit(list[i].OfB) })
}

func addLevels(r *rows, list timeline.Level) {
	n := len(list)
	r.f64("levels", "start", n, func(i int) float64 { return float64(list[i].Start) })
	r.f64("levels", "end", n, func(i int) float64 { return float64(list[i].End) })
	r.u32("levels", "kinds", n, func(i int) uint32 { return list[i].Kinds })
	for _, c := range []struct {
		name string
		of   func(b *timeline.Bucket) *[2]uint32
	}{
		{"low", func(b *timeline.Bucket) *[2]uint32 { return &b.Low }},
		{"high", func(b *timeline.Bucket) *[2]uint32 { return &b.High }},
		{"payload", func(b *timeline.Bucket) *[2]uint32 { return &b.Payload }},
		{"inFlight", func(b *timeline.Bucket) *[2]uint32 { return &b.InFlight }},
		{"rtt", func(b *timeline.Bucket) *[2]uint32 { return &b.RTT }},
	} {
		r.u32("levels", c.name, 2*n, func(i int) uint32 { return c.of(&list[i/2])[i%2] })
	}
}
