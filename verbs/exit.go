// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/internal/core"
)

// Leave removes this process's entries from the run directory, so that `verbena stat` and new
// peers on this host do not find it. It is for a process that ends without closing its contexts.
// It does not block.
func Leave() { core.Leave() }

// FlushCapture writes out the packets that WithCapture has recorded so far, or waits for the file
// that WithCaptureRing writes. It is for a process that ends without closing its contexts.
func FlushCapture() error { return core.FlushCapture() }
