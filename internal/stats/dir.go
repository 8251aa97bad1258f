package stats

import (
	"fmt"
	"os"
	"path/filepath"

	"verbena/internal/osio/secenv"
)

// Dir returns the directory of this user's sockets. It need not exist.
func Dir() string {
	if run := secenv.Get("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		return filepath.Join(run, "verbena")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("verbena-%d", os.Geteuid()))
}

// private makes dir if need be and checks that it belongs to this user and to
// nobody else: in a shared temporary directory another user may have made it
// first.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() || !ownedPrivately(fi) {
		return fmt.Errorf("%s is not a directory that only this user may use; remove it or set XDG_RUNTIME_DIR", dir)
	}
	return nil
}
