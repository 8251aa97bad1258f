// SPDX-License-Identifier: BSD-2-Clause

// Package version says which build this is.
//
// make writes the output of scripts/version into it. In a build without make it is the Go
// command's: the commit, or the module's version.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// release is the version that the next release will have. scripts/version reads it for
// builds from commits that no tag precedes.
const release = "0.1.0"

// stamp is set by the linker: -X verbena/internal/version.stamp=VERSION.
var stamp string

// String returns the version in one word, without a "v".
func String() string {
	built := ""
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		built = strings.TrimPrefix(info.Main.Version, "v")
	}
	return cmp.Or(stamp, built, release+"~unknown")
}
