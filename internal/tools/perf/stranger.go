// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// opening reads a connection, and fails if its first line is no message of ours.
type opening struct {
	conn  io.Reader
	begun bool
}

func (o *opening) Read(b []byte) (int, error) {
	n, err := o.conn.Read(b)
	if n > 0 && !o.begun {
		if o.begun = true; b[0] != '{' {
			return 0, &strangerError{greeting: string(b[:min(n, maxGreetingBytes)])}
		}
	}
	return n, err
}

// maxGreetingBytes bounds the part of a stranger's first message that is examined. perftest sends a
// version of this size, filled up with zeros.
const maxGreetingBytes = 16

// strangerError names the other program that the peer is.
type strangerError struct{ greeting string }

// perftestVersion matches the first message of perftest's programs on the same TCP port; perftest
// 4.5-0.17 sends "6.10".
var perftestVersion = regexp.MustCompile(`^\d{1,2}\.\d{1,3}\x00+$`)

func (e *strangerError) Error() string {
	if perftestVersion.MatchString(e.greeting) {
		return fmt.Sprintf("the peer is a program of perftest, such as ib_write_bw (it says "+
			"version %s): run 'verbena perf' on both sides, or 'verbena run ib_write_bw' here",
			strings.TrimRight(e.greeting, "\x00"))
	}
	return fmt.Sprintf("the peer is no 'verbena perf', it says %q: run the same on both sides, "+
		"or choose another --port", e.greeting)
}
