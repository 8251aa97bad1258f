// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSetuidProgramsAreRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	program(t, path, glibc, elf.EM_X86_64)
	if err := os.Chmod(path, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if err := loadable(path, dir); err != nil {
		t.Errorf("setuid to who runs it: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user: run as root")
	}
	for what, id := range map[string][2]int{"setuid": {65534, 0}, "setgid": {0, 65534}} {
		if err := os.Chown(path, id[0], id[1]); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
			t.Fatal(err)
		}
		if err := loadable(path, dir); err == nil || !strings.Contains(err.Error(), "is "+what+": the loader ignores") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
