// SPDX-License-Identifier: BSD-2-Clause

//go:build !race

package engine

const raceDetector = false
