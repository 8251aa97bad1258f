// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"fmt"
	"net/netip"
)

// record has the newest packets written to a file because of a failure, if they are kept: that of a
// completion, or an event. It does not block.
func (h *host) record(completion bool, format string, args ...any) {
	if h.recorder != nil {
		h.recorder.Failed(completion, func() string { return fmt.Sprintf(format, args...) })
	}
}

// RecordConnection has the newest packets written, if they are kept, because an attempt to connect
// to a peer has failed. Only the first of the process is: a client may ask for its server again and
// again, before that is there. It does not block.
func RecordConnection(peer netip.AddrPort, why error) {
	h := serving.Load()
	if h == nil || h.recorder == nil || h.unconnected.Swap(true) {
		return
	}
	h.record(true, "connection to %v: %v", peer, why)
}
