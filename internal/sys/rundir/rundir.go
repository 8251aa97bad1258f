// SPDX-License-Identifier: BSD-2-Clause

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"verbena/internal/sys/secenv"
)

// StatsSuffix ends the name of a socket in the directory by which a process shows its counters.
const StatsSuffix = ".sock"

// variable names the directory that the user's session has.
const variable = "XDG_RUNTIME_DIR"

// Dir returns the directory. It is there only if XDG_RUNTIME_DIR is one that others
// may write in.
//
// The error says why XDG_RUNTIME_DIR is not used, which is worth telling the user:
// processes that have another one, or none, may meet elsewhere.
func Dir() (string, error) {
	uid := strconv.Itoa(os.Geteuid())
	base := secenv.Get(variable)
	if base == "" {
		return fallback(uid), nil
	}
	dir, err := below(base, uid)
	if err == nil {
		return dir, nil
	}
	dir = fallback(uid)
	return dir, fmt.Errorf("%s=%s cannot be used, %s is instead: %w; set it to a directory that "+
		"user %s may write in, or unset it", variable, base, dir, err, uid)
}

// below returns the directory in one that the user has named.
func below(base, uid string) (string, error) {
	if !filepath.IsAbs(base) {
		return "", errors.New("it is not an absolute path")
	}
	fi, err := os.Stat(base)
	if err != nil {
		return "", err
	}
	if !fi.IsDir() {
		return "", errors.New("it is not a directory")
	}
	if owned(fi) && !shared(fi) {
		return filepath.Join(base, "verbena"), nil
	}
	dir := filepath.Join(base, "verbena-"+uid)
	return dir, Make(dir)
}

// fallback returns the directory of a user without a named one.
func fallback(uid string) string {
	for _, base := range perUser(uid) {
		if fi, err := os.Lstat(base); err == nil && fi.IsDir() && owned(fi) && !shared(fi) {
			return filepath.Join(base, "verbena")
		}
	}
	return filepath.Join(temporary(), "verbena-"+uid)
}

// Make makes the directory if need be, with mode 700, and checks it.
func Make(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return Check(dir)
}

// Check returns an error unless the directory is this user's and nobody else may write in it: below
// one that all share another user may have made it first. A missing one is fs.ErrNotExist.
func Check(dir string) error {
	fi, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !fi.IsDir() || !owned(fi):
		return fmt.Errorf("%s is not a directory of user %d: remove it or set %s to another "+
			"directory", dir, os.Geteuid(), variable)
	case shared(fi):
		return fmt.Errorf("%s may be written by others: chmod 700 it, or set %s to another "+
			"directory", dir, variable)
	}
	return nil
}
