// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// preloadName is the library that shows programs the files of a driver.
const preloadName = "libverbena-preload.so"

// suppressionsName is the file by which valgrind ignores the engine's false errors.
const suppressionsName = "verbena.supp"

// libraryNames lists the files that must be there. The first tells for which machine
// they are.
var libraryNames = []string{"libibverbs.so.1", "librdmacm.so.1", "libverbena-engine.so",
	preloadName}

// libraries returns the directory of the libraries that belong to a command:
// PREFIX/lib/verbena for PREFIX/bin/verbena, also in the source tree.
func libraries(executable string) (string, error) {
	executable, err := filepath.EvalSymlinks(executable)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(executable), "..", "lib", "verbena")
	for _, name := range libraryNames {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("%s is not in %s; run 'make build' in the source tree, or "+
				"install the whole package", name, dir)
		}
	}
	if strings.ContainsAny(dir, ": \t\n;$") {
		// ld.so(8): spaces and colons separate LD_PRELOAD, and neither variable has a way to
		// quote.
		return "", fmt.Errorf("the libraries are in %q, a name that LD_PRELOAD cannot hold; move "+
			"them to one without spaces, colons, semicolons and dollar signs", dir)
	}
	return dir, nil
}

// machine returns the machine that a shared object or program was compiled for.
func machine(path string) (elf.Machine, elf.Class, error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	return f.Machine, f.Class, nil
}
