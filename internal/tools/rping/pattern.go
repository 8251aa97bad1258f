// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"bytes"
	"fmt"
)

// The characters of the ping data, from 'A' to 'z'.
const (
	firstChar = 65
	lastChar  = 122
)

// fillPing writes the data of ping number n: "rdma-ping-N: ", then characters
// that begin one further with each ping, then a zero byte.
func fillPing(b []byte, n int) {
	head := fmt.Sprintf("rdma-ping-%d: ", n)
	c := byte(firstChar + n%(lastChar-firstChar+1))
	for i := copy(b, head); i < len(b); i++ {
		b[i] = c
		if c++; c > lastChar {
			c = firstChar
		}
	}
	b[len(b)-1] = 0
}

// text returns the ping data up to the zero byte.
func text(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}
