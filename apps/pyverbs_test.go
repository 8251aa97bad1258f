// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pyverbs' tests skip themselves where they find that a device lacks something.
// They may for these reasons; another one fails.
var lacked = regexp.MustCompile(`^(` + strings.Join([]string{
	`Can not run the test over non (MLX5|EFA) device`, `Could not open mlx5 context.*`, `Converting timestamp to nanoseconds is not supported`, // their drivers' own functions
	`Allocating dmabuf is not supported.*`,
	`Create QP type 8 is not supported`, `Create Raw Packet QP.* is not supported`,
	`There are no huge pages.*`, `cuda-python .* must be installed to run CUDA tests`, `PCI device must be passed by the user`, // the machine's
}, "|") + `)$`)

var skipped = regexp.MustCompile(`\.\.\. skipped ['"](.*)['"]`)

var pyverbs = []exchange{
	{program: "pyverbs", label: "its own tests", client: "sh " + file("pyverbs.sh") + " $DEV", says: []string{`Ran 2\d\d tests`, `(?m)^OK`}, limit: 3 * limit,
		check: onlyLacked,
		partly: "114 of its 273 tests skip themselves: 97 for functions of mlx5 and EFA; 17 for the memory of a GPU, " +
			"huge pages or a PCI device that the user names"},
}

// onlyLacked wants that nothing was skipped for a reason that we do not know.
func onlyLacked(t *testing.T, dir, said string) {
	for _, s := range skipped.FindAllStringSubmatch(said, -1) {
		if !lacked.MatchString(s[1]) {
			t.Errorf("a test was skipped: %s", s[1])
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "tests", "test_qp.py")); err != nil {
		t.Error(err) // these are not its tests
	}
}
