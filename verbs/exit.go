// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/internal/core"
)

// Leave removes what this process has in the directory where processes of its user
// meet: `verbena stat` and new peers on this host do not find it any more. It is for a
// process that is about to end without closing its contexts, and does not block.
func Leave() { core.Leave() }

// FlushCapture writes out what WithCapture has taken so far, for a process that
// is about to end without closing its contexts.
func FlushCapture() error { return core.FlushCapture() }
