// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"strings"
	"syscall"
	"testing"

	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

// A congestion control that does not exist is refused by an error that names those that do.
func TestWithCongestionControl(t *testing.T) {
	_, err := verbs.Open(loopback.Device(t), verbs.WithCongestionControl("cubic"))
	wantError(t, err, syscall.EINVAL, "congestion")
	if err != nil && !strings.Contains(err.Error(), "delivery-rate or dcqcn") {
		t.Error(err)
	}
	for _, name := range []string{"delivery-rate", "dcqcn"} {
		c, err := verbs.Open(loopback.Device(t), verbs.WithCongestionControl(name))
		check(t, err)
		check(t, c.Close())
	}
}
