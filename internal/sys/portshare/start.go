// SPDX-License-Identifier: BSD-2-Clause

package portshare

// KeeperCommand is the hidden subcommand of verbena that calls Keep with the directory
// that follows it.
const KeeperCommand = "keeper"

// Detached is the option with which that is the process that stays; without it the command
// starts one and ends, so that it is nobody's child.
const Detached = "--detached"
