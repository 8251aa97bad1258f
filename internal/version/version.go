// SPDX-License-Identifier: BSD-2-Clause

// Package version says which build this is.
//
// make writes the output of scripts/version into it. In a build without make the project's commands
// take the Go command's ([UseBuild]): the commit, or the module's version. A program that imports
// Verbena has a version of its own there.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// release is the version that the next release will have. scripts/version reads it for
// builds from commits that no tag precedes.
const release = "0.1.0"

// stamp is set by the linker, -X verbena/internal/version.stamp=VERSION, or by UseBuild.
var stamp string

// UseBuild makes the version that of the main module, where make has written none. A command of
// this project calls it before anything else.
func UseBuild() {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		stamp = cmp.Or(stamp, strings.TrimPrefix(info.Main.Version, "v"))
	}
}

// String returns the version in one word, without a "v".
func String() string { return cmp.Or(stamp, release+"~unknown") }
