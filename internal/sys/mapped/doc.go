// SPDX-License-Identifier: BSD-2-Clause

// Package mapped has memory outside Go's heap, for buffers that are used at once and as a whole.
// The system gives their pages together, by one call and large ones if it has them. Page after page
// at the first access they cost 20 times as much on some virtual machines. The garbage collector
// does not see them: a heap that holds large buffers grows by as much again before it is collected.
//
// Source: mmap(2), madvise(2)
package mapped
