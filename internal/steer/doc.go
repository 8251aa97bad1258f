// SPDX-License-Identifier: BSD-2-Clause

// Package steer decides which flows of an interface a frame is for. It does no I/O and has no lock.
// A Table is immutable, so that any thread reads it.
//
//	frame ─► Match ─► sniffers                 each gets a copy
//	              └─► normal flows             the first that matches, by priority and age,
//	                    │                      with equal ones; those that do not trap let it pass
//	                    └─► defaults           for groups, then for all
//
// Source: ibv_create_flow(3).
package steer
