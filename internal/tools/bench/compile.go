// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// sources are programs that are compiled where they run.
//
//go:embed c
var sources embed.FS

// scratch is the run's directory for programs and other files of its own.
func (r *run) scratch() (string, error) {
	if r.dir != "" {
		return r.dir, nil
	}
	dir, err := os.MkdirTemp("", "verbena-bench-")
	if err == nil {
		r.dir = dir
	}
	return dir, err
}

// compiled returns the program of c/NAME.c, which the compiler leaves once a run.
func (r *run) compiled(ctx context.Context, compiler, name string,
	libraries ...string) (string, error) {
	dir, err := r.scratch()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if _, err := exec.LookPath(compiler); err != nil {
		return "", fmt.Errorf("%w: %s is not installed", errLeftOut, compiler)
	}
	if err := os.CopyFS(dir, sources); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	args := append([]string{"-O2", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra",
		"-Werror", "-pthread", "-o", program, filepath.Join(dir, "c", name+".c")}, libraries...)
	if out, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s %s.c: %w\n%s", compiler, name, err, out)
	}
	return program, nil
}
