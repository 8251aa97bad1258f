// SPDX-License-Identifier: BSD-2-Clause

package core

import "fmt"

// record has the newest packets written to a file because of a failure, if they are kept: that of a
// completion, or an event. It does not block.
func (h *host) record(completion bool, format string, args ...any) {
	if h.recorder != nil {
		h.recorder.Failed(completion, func() string { return fmt.Sprintf(format, args...) })
	}
}
