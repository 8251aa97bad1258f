// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// pauses paces the background goroutine's looks at a link that cannot wake it: soon after the peer
// has written, then ever less often. The zero value is a link whose peer has not written yet.
type pauses struct {
	last  monotime.Duration
	heard uint64 // the peer's writes at the last look
}

// next returns the pause before the next look. heard counts the peer's writes.
func (p *pauses) next(heard uint64) monotime.Duration {
	if heard != p.heard {
		*p = pauses{heard: heard}
	}
	p.last = min(max(2*p.last, policy.LinkFirstLook), policy.LinkLastLook)
	return p.last
}
