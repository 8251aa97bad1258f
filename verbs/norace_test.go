// SPDX-License-Identifier: BSD-2-Clause

//go:build !race

package verbs_test

const raceEnabled = false
