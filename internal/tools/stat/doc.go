// SPDX-License-Identifier: BSD-2-Clause

// Package stat is "verbena stat" and "verbena top": the queue pairs and counters of the devices
// that processes of this user have open, once, live, and for Prometheus. Package stats is how those
// processes are asked.
package stat
