// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"verbena/internal/fsm"
	"verbena/internal/monotime"
)

const (
	// rememberFor limits the time for which an answer is remembered. By default a peer
	// asks again after 4.8 s.
	rememberFor = 10 * monotime.Second
	// maxRemembered bounds the answers remembered; the oldest are forgotten first.
	maxRemembered = 4096
)

var remembers = fsm.SetOf(Rejected, SIDRAnswered)

// remember keeps an answer that may be asked for again.
func (a *Agent) remember(now monotime.Time, c *conn) {
	a.timers.set(c, now.Add(rememberFor))
	if len(a.remembered) == maxRemembered {
		oldest := a.remembered[0]
		a.timers.remove(oldest)
		a.close(oldest)
	}
	a.remembered = append(a.remembered, c)
}
