// SPDX-License-Identifier: BSD-2-Clause

// Package childproc starts the other processes of a test, which it talks to by their standard input
// and output. A child ends by itself at the end of its input.
package childproc

import (
	"io"
	"os"
	"os/exec"
	"testing"
)

// Start starts a program. Its standard error is that of the test, unless cmd says otherwise. The
// caller waits for the program.
func Start(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err = cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return in, out
}
