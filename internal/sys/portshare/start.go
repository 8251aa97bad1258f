// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"fmt"

	"verbena/internal/sys/secenv"
)

// KeeperCommand is the hidden subcommand of verbena that calls Keep with the directory
// that follows it.
const KeeperCommand = "keeper"

// SlotsOption is given to the command by processes that do not know its version: one that
// has another number of slots, or does not know the option, fails at once.
var SlotsOption = fmt.Sprint("--slots=", Slots)

// keeperVariable names the command to be started instead of verbena in $PATH.
const keeperVariable = "VERBENA_KEEPER"

// NamedKeeper returns the command that the environment names; empty if it names none.
func NamedKeeper() string { return secenv.Get(keeperVariable) }

// Detached is the option of the process that stays. Without it the command starts that process and
// ends, so that it is nobody's child.
const Detached = "--detached"
