//go:build cabi

package cabitest

import "testing"

func TestSysfsPathIsTheEnvironments(t *testing.T) {
	if got, want := output(t, "print_sysfs_path", "SYSFS_PATH=/nowhere//"), "/nowhere /nowhere/class/infiniband/roce_lo\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
