// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"verbena/internal/testkit/netns"
)

// output runs testdata/name.c with our libraries and returns its output.
func output(t *testing.T, name string, env ...string) string {
	t.Helper()
	program := compile(t, name)
	lib, _ := libDir()
	out, complaints := outputOf(t, program, append([]string{"LD_LIBRARY_PATH=" + lib}, env...))
	if complaints != "" {
		t.Errorf("%s complains: %s", name, complaints)
	}
	return out
}

// outputOf runs a program and returns its output and its stderr.
func outputOf(t *testing.T, program string, env []string, args ...string) (string, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", program, err, out.Bytes(), complaints.Bytes())
	}
	return out.String(), complaints.String()
}

// ownNamespace reports whether this process has a network namespace of its own, and takes its
// loopback interface up. Elsewhere the test is done in one: no other process has the port there.
func ownNamespace(t *testing.T) bool {
	t.Helper()
	n := netns.New(t)
	if n != nil {
		n.Up("lo")
	}
	return n != nil
}
