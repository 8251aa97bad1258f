// SPDX-License-Identifier: BSD-2-Clause

// Package device describes verbs devices before anything is created on them: the list of devices,
// their attributes and limits, their GID tables, and the rules by which a queue pair changes state.
//
// A device stands on a network interface. Its GID table is the interface's
// addresses, read anew at each look-up as an administrator may change them; within
// a process an address keeps its index.
package device
