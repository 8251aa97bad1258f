// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"strings"
	"testing"

	"verbena/internal/stats"
)

func TestOneRegion(t *testing.T) {
	d := stats.Device{Regions: 1, MRs: []stats.MR{{PDN: 7, Length: 100}}}
	if got := regions(d, stats.PD{PDN: 7}); !strings.HasPrefix(got, "1 memory region, ") {
		t.Error(got)
	}
}
