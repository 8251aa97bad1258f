// SPDX-License-Identifier: BSD-2-Clause

//go:build race

package udp

const raceEnabled = true
