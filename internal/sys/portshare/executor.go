// SPDX-License-Identifier: BSD-2-Clause

package portshare

// ExecutorCommand is the hidden subcommand of verbena that calls Execute with the directory
// that follows it.
const ExecutorCommand = "executor"

// Detached is the option with which that is the process that stays; without it the command
// starts one and ends, so that it is nobody's child.
const Detached = "--detached"
