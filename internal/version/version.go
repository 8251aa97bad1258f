// SPDX-License-Identifier: BSD-2-Clause

// Package version says which build this is.
//
// make writes what scripts/version prints into it. A build without make has what the
// Go command knows: the commit, or the module's version.
package version

import (
	"cmp"
	"runtime/debug"
)

// release is what the next release is called, of which a build without both make and
// git knows nothing more.
const release = "0.1"

// stamp is set by the linker: -X verbena/internal/version.stamp=VERSION.
var stamp string

// String returns the version in one word.
func String() string {
	built := ""
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		built = info.Main.Version
	}
	return cmp.Or(stamp, built, release+"+unknown")
}
