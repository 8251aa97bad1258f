// SPDX-License-Identifier: BSD-2-Clause

// Package cputime tells how much processor time this process has used. A thread that waits
// for a core uses none.
package cputime
