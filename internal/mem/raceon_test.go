// SPDX-License-Identifier: BSD-2-Clause

//go:build race

package mem

const raceEnabled = true
