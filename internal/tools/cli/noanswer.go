// SPDX-License-Identifier: BSD-2-Clause

package cli

import "verbena/ib"

// NoAnswer tells a user where to look when a work request had no answer. It follows the
// completion's text (transport retry counter exceeded).
func NoAnswer(v ib.VendorErr) string {
	switch v {
	case ib.VendorPeerGone:
		return "see its last message there"
	case ib.VendorSilent:
		return "its process runs on this host: see its messages there"
	}
	return "the peer does not answer: is it running, and is UDP port 4791 open?"
}
