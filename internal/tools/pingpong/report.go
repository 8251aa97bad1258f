// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"fmt"
	"io"
	"strings"
	"time"
)

func printLocal(w io.Writer, k kind, a Address) {
	s := a.String()
	if k.name == "ud" { // ibv_ud_pingpong has a colon here
		s = strings.Replace(s, ", GID", ": GID", 1)
	}
	fmt.Fprintf(w, "  local address:  %s\n", s)
}

func printRemote(w io.Writer, a Address) {
	fmt.Fprintf(w, "  remote address: %s\n", a)
}

func printResult(w io.Writer, size, iters int, took time.Duration) {
	usec := float64(took.Nanoseconds()) / 1e3
	bytes := int64(size) * int64(iters) * 2
	fmt.Fprintf(w, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, usec/1e6,
		float64(bytes)*8/usec)
	fmt.Fprintf(w, "%d iters in %.2f seconds = %.2f usec/iter\n", iters, usec/1e6,
		usec/float64(iters))
}

func printInvalid(w io.Writer, pages []int) {
	for _, p := range pages {
		fmt.Fprintf(w, "invalid data in page %d\n", p)
	}
}
