// SPDX-License-Identifier: BSD-2-Clause

//go:build !race

package roce

const raceDetector = false
