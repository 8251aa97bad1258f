// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"time"

	"verbena/ib"
	"verbena/internal/monotime"
)

// Clock reads the device's clock and the host's, for the times of completions.
func Clock() ib.WCTime {
	now := time.Now()
	return ib.WCTime{Device: uint64(monotime.At(now)), Wallclock: uint64(now.UnixNano())}
}
