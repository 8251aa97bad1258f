// SPDX-License-Identifier: BSD-2-Clause

// Package run is "verbena run": it starts an unmodified program that uses
// libibverbs or librdmacm over Verbena's libraries.
//
// It sets environment variables and executes the program in its own process: no parent stands
// between the program and its signals, terminal and exit status. A program that cannot work is
// refused before, with the reason. Otherwise a program that ignores the libraries says "no RDMA
// device".
//
// Programs also look for files that a kernel driver would bring. Those are
// written to a directory of the user's, one for each network namespace, which
// is used again; libverbena-preload.so shows them at their usual places.
package run
