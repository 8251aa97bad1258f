// SPDX-License-Identifier: BSD-2-Clause

// Package cli has the parts that the commands of verbena share: options that choose a device,
// errors and progress on the terminal.
//
// A command that fails prints one line, "verbena: what is wrong; what to do", and nothing else:
// usage is shown only when asked for. The exit status is 1 after a failure at run time, 2 after a
// wrong call, and 130 after an interrupt. As in shells, 127 means that a program does not exist,
// and 126 that it cannot be executed.
package cli
