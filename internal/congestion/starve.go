// SPDX-License-Identifier: BSD-2-Clause

package congestion

import "verbena/internal/monotime"

// A queue that stands for starvedTrips round trips is one that others make, where a flow has less
// than half of the rate that it had when the queue began. Then the window grows by a part of
// itself in a round trip, 1/starvedGrowth, and a loss leaves 7/8 of it. With half of that growth
// BBR leaves a WRITE half as much.
//
// Source: internal/flows/testdata/beside.txt.
const (
	starvedTrips  = 16
	starvedGrowth = 32
)

// starves reports whether others make a queue, and take what this flow leaves. Flows that began in
// a queue together each had their part when it began.
func (w *Window) starves(now monotime.Time) bool {
	d := &w.drain
	return w.Long() && now.Sub(d.near) > starvedTrips*w.RTT.Smoothed &&
		float64(w.bytes)/float64(w.RTT.Smoothed) < float64(d.best/2)/float64(w.RTT.Shortest)
}
