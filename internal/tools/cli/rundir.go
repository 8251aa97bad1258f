// SPDX-License-Identifier: BSD-2-Clause

package cli

import (
	"fmt"
	"os"
	"sync"

	"verbena/internal/sys/rundir"
)

var passedOver sync.Once

// RuntimeDir returns the directory where this user's processes meet. It says once on
// stderr why XDG_RUNTIME_DIR names another one, where it does.
func RuntimeDir() string {
	dir, err := rundir.Dir()
	if err != nil {
		passedOver.Do(func() { fmt.Fprintf(os.Stderr, "verbena: %s\n", oneLine(err)) })
	}
	return dir
}
