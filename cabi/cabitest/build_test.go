// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// libDir returns the directory of the libraries, which make builds unless the caller names a
// directory of built ones.
var libDir = sync.OnceValues(func() (string, error) {
	if d := os.Getenv("VERBENA_LIBDIR"); d != "" {
		return d, nil
	}
	out, err := exec.Command("make", "-s", "-C", "..").CombinedOutput()
	if err != nil {
		return "", errors.New("make: " + err.Error() + "\n" + string(out))
	}
	return filepath.Abs("../../lib/verbena")
})

// compile builds testdata/name.c, with flags after the others, and returns the program.
func compile(t *testing.T, name string, flags ...string) string {
	t.Helper()
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), name)
	args := append([]string{"-O1", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread",
		"-o", program, filepath.Join("testdata", name+".c"), "-Wl,--as-needed", filepath.Join(lib, "librdmacm.so.1"),
		filepath.Join(lib, "libibverbs.so.1")}, flags...)
	out, err := exec.Command("gcc", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// within bounds the run of a program.
const within = 150 * time.Second

// run compiles and runs testdata/name.c.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	runProgram(t, compile(t, name), args...)
}

// runProgram runs a program that compile has made.
func runProgram(t *testing.T, program string, args ...string) {
	t.Helper()
	name := filepath.Base(program)
	lib, _ := libDir()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s: not done after %v\n%s", name, within, out)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	if s := strings.TrimSpace(string(out)); s != "" {
		t.Log(s)
	}
}
