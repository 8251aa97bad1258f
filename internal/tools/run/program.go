// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"verbena/internal/tools/cli"
)

// maxInterpreters bounds how many scripts may interpret each other; Linux
// itself stops at 4 (execve(2)).
const maxInterpreters = 4

// find returns the path of the program to execute. Its errors have the exit statuses
// of a shell.
func find(name string) (string, error) {
	fail := func(status int, format string, args ...any) (string, error) {
		return "", cli.WithStatus(status, fmt.Errorf(format, args...))
	}
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrDot):
		return fail(cli.ExitNoProgram, "%s is in this directory, not in $PATH; write ./%s",
			name, name)
	case errors.Is(err, exec.ErrNotFound) && !strings.Contains(name, "/"):
		if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
			return fail(cli.ExitNoProgram,
				"there is no program %s in $PATH; write ./%s for the one in this directory",
				name, name)
		}
		return fail(cli.ExitNoProgram, "there is no program %s in $PATH", name)
	case errors.Is(err, fs.ErrNotExist):
		return fail(cli.ExitNoProgram, "cannot run %s: %w", name, cause(err))
	case err != nil:
		return fail(cli.ExitCannotRun, "cannot run %s: %w", name, cause(err))
	}
	return filepath.Abs(path)
}

// cause strips the text that os and exec put around the reason: the message names the program
// already.
func cause(err error) error {
	var e *exec.Error
	var p *os.PathError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &e):
		return e.Err
	}
	return err
}

// loadable checks that a program will load the libraries in dir. A program that it cannot judge
// passes: the system decides.
func loadable(path, dir string) error {
	for range maxInterpreters {
		f, err := os.Open(path)
		if err != nil {
			return nil // may be executed, and not read
		}
		interpreter, err := examine(f, path, dir)
		f.Close()
		if err != nil || interpreter == "" {
			return err
		}
		path = interpreter
	}
	return nil
}

// examine checks one file; of a script it returns the interpreter.
func examine(f *os.File, path, dir string) (interpreter string, err error) {
	if err := unprivileged(f, path); err != nil {
		return "", err
	}
	if line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n'); err == nil {
		if script, ok := strings.CutPrefix(line, "#!"); ok {
			if fields := strings.Fields(script); len(fields) > 0 && filepath.IsAbs(fields[0]) {
				return fields[0], nil
			}
			return "", nil
		}
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return "", nil // the system will report the error
	}
	loader := ""
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			if err != nil {
				return "", nil
			}
			loader = strings.TrimRight(string(b), "\x00")
		}
	}
	switch {
	case loader == "":
		return "", fmt.Errorf("%s is statically linked: it would not load these libraries; link "+
			"it dynamically", path)
	case strings.Contains(filepath.Base(loader), "musl"):
		return "", fmt.Errorf("%s is linked to musl, these libraries to glibc; use a program "+
			"built for glibc", path)
	}
	if m, c, err := machine(filepath.Join(dir, libraryNames[0])); err == nil && (m != e.Machine ||
		c != e.Class) {
		return "", fmt.Errorf("%s is a program of %s, these libraries are of %s; use one built "+
			"like them", path, architecture(e.Machine, e.Class), architecture(m, c))
	}
	return "", nil
}

// architecture describes a machine: "64 bits for x86_64".
func architecture(m elf.Machine, c elf.Class) string {
	return strings.TrimPrefix(c.String(), "ELFCLASS") + " bits for " +
		strings.ToLower(strings.TrimPrefix(m.String(), "EM_"))
}
