// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/rundir"
	"verbena/internal/tools/cli"
)

// start executes the program in this process's place, or below it if this is process 1. It returns
// only if that cannot be done.
func start(o *options, args []string) error {
	path, err := find(args[0])
	if err != nil {
		return err
	}
	if err := captureWritable(o.captureFile()); err != nil {
		return fmt.Errorf("%s: %w", o.captureOption(), err)
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := libraries(executable)
	if err != nil {
		return err
	}
	if err := loadable(path, dir); err != nil {
		return err
	}
	selection, devices, err := o.selected(os.Environ())
	if err != nil {
		return err
	}
	t, err := driverFiles(devices)
	if err != nil {
		return err
	}
	base, passed := rundir.Dir()
	root, err := makeRoot(base, selection, t)
	if err != nil {
		return fmt.Errorf("cannot write the files of a driver: %w; set XDG_RUNTIME_DIR to a "+
			"directory where this user may write", errors.Join(err, passed))
	}
	env, err := o.variables(os.Environ(), dir, root)
	if err != nil {
		return err
	}
	if cpuinfo, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		env = env.withoutRDTSCP(string(cpuinfo))
	}
	if os.Getpid() == 1 {
		var status int
		if status, err = supervise(path, args, env); err == nil {
			os.Exit(status)
		}
	} else {
		err = unix.Exec(path, args, env)
	}
	return cli.WithStatus(cli.ExitCannotRun, fmt.Errorf("cannot run %s: %w", args[0], err))
}

// captureWritable checks that captures can be written in their place: a program turns the
// libraries' message into "cannot allocate".
func captureWritable(file string) error {
	dir := filepath.Dir(file)
	if file == "" || strings.Contains(dir, "%p") {
		return nil
	}
	if err := unix.Access(dir+"/.", unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("cannot write in the directory %s: %w", dir, err)
	}
	return nil
}
