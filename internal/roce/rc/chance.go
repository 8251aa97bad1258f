// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"slices"

	"verbena/internal/monotime"
)

// chance tells losses by chance from congestion, where the responder goes back N. Its NAK names one
// packet, and nothing says which of the later ones have arrived. So the packets that arrive between
// two losses say how many are lost. The shortest of the newest round trips says whether there is a
// queue: one alone may be long by jitter.
type chance struct {
	delivered int                  // bytes, of all time until the newest loss
	losses    uint                 // of all time
	runs      [16]int              // packets that arrived before each of the newest losses
	trips     [4]monotime.Duration // the newest round trips, 0 for those yet to come
	oldest    int                  // of trips
	unseen    int                  // losses since the newest round trip was measured
	good      int                  // the largest window of late at which a loss was by chance
}

const (
	// leastRun is the least run of losses by chance: 2 %. Source: BBR.LossThresh of
	// draft-ietf-ccwg-bbr.
	leastRun = 50
	// mostRuns bounds each run of the average, in least runs. One long run is then not taken for
	// many. Few by chance are longer: one of 55 at 2 %.
	mostRuns = 4
	// mostUnseen bounds the losses after which round trips are too old to show a queue.
	mostUnseen = 4
)

// lossCause represents the cause of a loss.
type lossCause uint8

const (
	tooLarge lossCause = iota // the window is too large for the path
	inQueue                   // few packets are lost, but the round trips show a queue
	byChance                  // few packets are lost, whatever the window is
)

func (c *chance) sample(took monotime.Duration) {
	c.trips[c.oldest] = took
	c.oldest = (c.oldest + 1) % len(c.trips)
	c.unseen = 0
}

// lost takes note of a loss, when so many bytes had been delivered, of all time. It returns the
// cause, with a window of so many packets. The first loss is not by chance: it may end slow start.
// After 16 losses nothing earlier counts, so a path that becomes worse shows.
//
// A window of more than two runs gains little. All behind the first lost packet is in vain.
func (c *chance) lost(delivered, packet, window int,
	shortest, variation monotime.Duration) lossCause {
	// the count of bytes wraps where an int has 32 bits
	c.runs[c.losses%uint(len(c.runs))] = int(uint(delivered-c.delivered) / uint(packet))
	c.delivered = delivered
	c.losses++
	c.unseen++
	least, sum := max(leastRun, window/2), 0
	for _, run := range c.runs {
		sum += min(run, mostRuns*least)
	}
	counted := int(min(c.losses, uint(len(c.runs))))
	trip := slices.Min(c.trips[:])
	switch {
	case c.losses == 1 || sum < least*counted || c.unseen > mostUnseen || trip == 0:
		return tooLarge
	case trip > shortest+shortest/8+variation:
		return inQueue
	}
	return byChance
}

// window returns the least that a loss leaves of a window. Losses by chance let it grow to what it
// was: the round trips that follow one loss may hide that it was by chance. A loss in a queue takes
// an eighth. The queue may be that of a host that handles packets one by one, and then it is there
// whenever the window does its work.
func (c *chance) window(cause lossCause, window int) int {
	switch cause {
	case byChance:
		c.good = max(c.good, window)
		return min(window+window/8, c.good)
	case inQueue:
		return window / 8 * 7
	}
	c.good -= c.good / 16
	return 0
}
