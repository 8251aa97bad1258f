// SPDX-License-Identifier: BSD-2-Clause

//go:build race

package rsocket

// raceEnabled says that the race detector watches, which allocates and makes
// everything ten times slower.
const raceEnabled = true
