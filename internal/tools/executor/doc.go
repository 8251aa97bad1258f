// SPDX-License-Identifier: BSD-2-Clause

// Package executor is "verbena executor", which users do not call: processes that share
// the port start it, and it sends what the last of them leaves when it is killed. See
// package share.
package executor
