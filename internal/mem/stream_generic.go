// SPDX-License-Identifier: BSD-2-Clause

//go:build !amd64

package mem

// streams says that there is no instruction for Stream.
const streams = false

func streamLines(dst, src []byte) (from, to int) { return 0, 0 }
