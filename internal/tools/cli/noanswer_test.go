// SPDX-License-Identifier: BSD-2-Clause

package cli

import (
	"strings"
	"testing"

	"verbena/ib"
)

// The port is of interest only where packets go by it.
func TestNoAnswerNamesThePort(t *testing.T) {
	for v, want := range map[ib.VendorErr]bool{ib.VendorTimeout: true, ib.VendorSequence: true, ib.VendorPeerGone: false, ib.VendorSilent: false} {
		if hint := NoAnswer(v); strings.Contains(hint, "4791") != want {
			t.Errorf("%v: %s", v, hint)
		}
	}
}
