// SPDX-License-Identifier: BSD-2-Clause

package version

import (
	"strings"
	"testing"
)

func TestStampComesFirst(t *testing.T) {
	if v := String(); v == "" || strings.ContainsAny(v, " ()\n") || v[0] == 'v' {
		t.Errorf("without a stamp: %q", v)
	}
	defer func(old string) { stamp = old }(stamp)
	const made = "0.1.0~git202601020304.0123abcd"
	stamp = made
	UseBuild()
	if v := String(); v != made {
		t.Errorf("String() = %q", v)
	}
}
