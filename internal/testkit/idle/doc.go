// SPDX-License-Identifier: BSD-2-Clause

// Package idle has tests see whether a process that has nothing to do sleeps.
package idle
