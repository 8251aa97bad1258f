// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tools are compilers with a sanitizer each. faults are the mistakes of testdata/sanitized.c that
// the sanitizer finds, and finds is its message.
var tools = []struct {
	name, compiler string
	flags          []string
	fault, finds   string
}{
	{"gcc's AddressSanitizer", "gcc", []string{"-fsanitize=address,undefined"}, "freed", "heap-use-after-free"},
	{"clang's AddressSanitizer", "clang", []string{"-fsanitize=address,undefined"}, "leak", "detected memory leaks"},
	{"clang's AddressSanitizer as a library", "clang", []string{"-fsanitize=address", "-shared-libasan"}, "freed", "heap-use-after-free"},
	{"LeakSanitizer", "gcc", []string{"-fsanitize=leak"}, "leak", "detected memory leaks"},
	{"gcc's ThreadSanitizer", "gcc", []string{"-fsanitize=thread"}, "race", "data race"},
	{"clang's ThreadSanitizer", "clang", []string{"-fsanitize=thread"}, "race", "data race"},
}

// TestSanitizersSeeTheProgramOnly: a sanitizer in a program under "verbena run", here as a child of
// make, reports errors of the program, and none of our libraries.
func TestSanitizersSeeTheProgramOnly(t *testing.T) {
	command := verbena(t)
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			dir := t.TempDir()
			sanitized(t, tool.compiler, tool.flags, dir, "sanitized", "cm_types")
			makefile := "check:\n\t./sanitized\n\t./cm_types 127.0.0.1\nwrong:\n\t./sanitized " + tool.fault + "\n"
			if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(makefile), 0o644); err != nil {
				t.Fatal(err)
			}
			check := func(target string) (string, error) {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				cmd := exec.CommandContext(ctx, command, "run", "make", "-s", "-C", dir, target)
				cmd.Env = append(os.Environ(), "TSAN_OPTIONS=atexit_sleep_ms=0", "ASAN_OPTIONS=detect_leaks=1")
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if out, err := check("check"); err != nil || out != "" {
				t.Errorf("a correct program: %v\n%s", err, out)
			}
			if out, err := check("wrong"); err == nil || !strings.Contains(out, tool.finds) {
				t.Errorf("a wrong program: %v, want %q\n%s", err, tool.finds, out)
			}
		})
	}
}

// sanitized compiles programs of testdata with a compiler's flags into dir.
func sanitized(t *testing.T, compiler string, flags []string, dir string, names ...string) {
	t.Helper()
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range flags {
		if flag == "-shared-libasan" { // clang leaves it to the program's user to find its library
			file, err := exec.Command(compiler, "-print-file-name=libclang_rt.asan-x86_64.so").Output()
			if err != nil {
				t.Fatal(err)
			}
			flags = append(flags, "-Wl,-rpath,"+filepath.Dir(string(file)))
		}
	}
	for _, name := range names {
		args := append([]string{"-O1", "-g", "-std=gnu11", "-pthread", "-o", filepath.Join(dir, name), filepath.Join("testdata", name+".c"),
			"-Wl,--as-needed", filepath.Join(lib, "librdmacm.so.1"), filepath.Join(lib, "libibverbs.so.1")}, flags...)
		if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: clang's sanitizers are in libclang-rt-dev\n%s", compiler, err, out)
		}
	}
}

// TestValgrindSeesTheProgramOnly: a correct program that a child of "verbena run" starts
// under valgrind has no error and no leak, and a wrong one has.
func TestValgrindSeesTheProgramOnly(t *testing.T) {
	if out, err := underValgrind(t, "sanitized", ""); err != nil || !strings.Contains(out, "ERROR SUMMARY: 0 errors") {
		t.Errorf("a correct program: %v\n%s", err, out)
	}
	out, err := underValgrind(t, "sanitized", "freed,leak")
	for _, finds := range []string{"Invalid read of size 1", "104 bytes in 1 blocks are definitely lost"} {
		if err == nil || !strings.Contains(out, finds) {
			t.Errorf("a wrong program: %v, want %q\n%s", err, finds, out)
		}
	}
}

// TestValgrindOutlivesGarbage: valgrind does not abort at memory that the engine uses twice.
func TestValgrindOutlivesGarbage(t *testing.T) {
	if out, err := underValgrind(t, "garbage", ""); err != nil || !strings.Contains(out, "ERROR SUMMARY: 0 errors") {
		t.Errorf("%v\n%s", err, out)
	}
}

// underValgrind runs testdata/name.c under valgrind, which a shell starts under "verbena run".
func underValgrind(t *testing.T, name, argument string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	out, err := exec.CommandContext(ctx, verbena(t), "run", "sh", "-c", `valgrind --leak-check=full --error-exitcode=9 "$0" $1; exit $?`,
		compile(t, name), argument).CombinedOutput()
	return string(out), err
}
