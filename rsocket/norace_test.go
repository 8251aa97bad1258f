// SPDX-License-Identifier: BSD-2-Clause

//go:build !race

package rsocket

const raceEnabled = false
