// SPDX-License-Identifier: BSD-2-Clause

// Package cputime measures the processor time that this process has used, and counts how often its
// threads were preempted. A thread that waits for a core uses no time, as one that sleeps. A thread
// may wait for a core when it wakes up, instead of taking it from another. It may leave one that
// another needs.
package cputime
