// SPDX-License-Identifier: BSD-2-Clause

// Command verbena-keeper holds UDP port 4791 for the C programs that meet in a directory, as
// `verbena keeper` does. It is installed beside the libraries, which start it: so they need
// no command, and never meet one of another version.
package main

import (
	"fmt"
	"os"

	"verbena/internal/sys/portshare"
	"verbena/internal/sys/xdp"
	"verbena/internal/transport/roce"
)

func main() {
	a := os.Args[1:]
	if len(a) != 3 || a[0] != portshare.KeeperCommand || a[1] != portshare.Detached {
		fmt.Fprintln(os.Stderr, "verbena-keeper is started by Verbena's libraries")
		os.Exit(2)
	}
	if err := roce.Keep(a[2], xdp.Attach); err != nil {
		fmt.Fprintln(os.Stderr, "verbena-keeper:", err)
		os.Exit(1)
	}
}
