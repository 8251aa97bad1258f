// SPDX-License-Identifier: BSD-2-Clause

// Package cputime measures the processor time that this process has used. A thread that waits for a
// core uses none.
package cputime
