package run

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"verbena/internal/device"
	"verbena/internal/osio/share"
)

// start executes the program in this process's place. It returns only if that
// cannot be done.
func start(o *options, args []string) error {
	path, err := find(args[0])
	if err != nil {
		return err
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
	selected := o.devices
	if selected == "" { // a command around this may have said it
		selected = os.Getenv(devicesVariable)
	}
	selection := device.ParseSelection(selected)
	devices, err := selection.List() // those that the libraries show
	if err != nil {
		return err
	}
	t, err := driverFiles(devices)
	if err != nil {
		return err
	}
	root, err := makeRoot(share.DefaultDir(), selection, t)
	if err != nil {
		return fmt.Errorf("cannot write the files of a driver: %w", err)
	}
	env, err := o.variables(os.Environ(), dir, root)
	if err != nil {
		return err
	}
	return fmt.Errorf("cannot run %s: %w", args[0], unix.Exec(path, args, env))
}
