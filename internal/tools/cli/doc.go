// SPDX-License-Identifier: BSD-2-Clause

// Package cli is what the commands of verbena have in common: the options that
// choose a device, how errors reach the terminal, progress on it.
//
// A command that fails prints one line, "verbena: what is wrong; what to do",
// and nothing else: usage is shown only when asked for. The exit status is 1
// for what happened at run time, 2 for a wrong call, 130 after an interrupt; 127 and 126
// for a program that is not there or cannot be executed, as shells have it.
package cli
