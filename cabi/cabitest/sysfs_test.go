// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestSysfsPathIsTheEnvironments(t *testing.T) {
	if got, want := output(t, "print_sysfs_path", "SYSFS_PATH=/nowhere//"), "/nowhere /nowhere/class/infiniband/roce_lo\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// verbena builds the command beside the libraries, and returns its path.
func verbena(t *testing.T) string {
	t.Helper()
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	prefix := t.TempDir()
	if err := os.Mkdir(filepath.Join(prefix, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(lib, filepath.Join(prefix, "lib", "verbena")); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(prefix, "bin", "verbena")
	if out, err := exec.Command("go", "build", "-o", program, "verbena/cmd/verbena").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// TestSysfsIsThatOfVerbenaRun: programs that read files under "verbena run" see the same as the
// library returns.
func TestSysfsIsThatOfVerbenaRun(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	command := verbena(t)
	for _, device := range []string{"roce_lo", "iwarp_lo", "trp_lo"} {
		t.Run(device, func(t *testing.T) { compareSysfs(t, command, lib, device) })
	}
}

func compareSysfs(t *testing.T, command, lib, device string) {
	list := "d=/sys/class/infiniband/" + device + `; p=$d/ports/1
for f in $d/node_* $d/sys_image_guid $d/fw_ver $p/*_* $p/state $p/rate $p/lid $p/*/0 $p/*/*/0; do
  [ -d $f ] || echo "${f#$d/}: $(cat $f)"; done`
	files, complaints := outputOf(t, command, nil, "run", "--device", device, "--", "sh", "-c", list)
	if complaints != "" {
		t.Errorf("verbena run: %s", complaints)
	}
	var names []string
	for _, line := range strings.Split(strings.TrimSpace(files), "\n") {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, name)
	}
	if len(names) < 12 {
		t.Fatalf("only %q", names)
	}
	program := compile(t, "read_sysfs")
	if got, _ := outputOf(t, program, []string{"LD_LIBRARY_PATH=" + lib, "VERBENA_DEVICES=" + device}, names...); got != files {
		t.Errorf("the library:\n%s\nverbena run:\n%s", got, files)
	}
}

// ownVersion matches the line that ibv_devinfo lacks.
var ownVersion = regexp.MustCompile(`(?m)^\tverbena:.*\n`)

// newODP matches capabilities that ibv_devinfo names since rdma-core 65.
var newODP = regexp.MustCompile(`SUPPORT_FLUSH\n\t+SUPPORT_ATOMIC_WRITE`)

// TestDevinfoIsThatOfIbverbsUtils compares the two commands line by line.
func TestDevinfoIsThatOfIbverbsUtils(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("ibv_devinfo")
	if err != nil {
		t.Skip("ibv_devinfo is not installed: apt-get install ibverbs-utils")
	}
	env := []string{"LD_LIBRARY_PATH=" + lib, "VERBENA_DEVICES=roce,iwarp,trp"}
	list, _ := outputOf(t, program, env, "-l")
	devices := regexp.MustCompile(`(?:roce|iwarp|trp)_\S+`).FindAllString(list, -1)
	if len(devices) < 3 {
		t.Fatalf("ibv_devinfo -l: %s", list)
	}
	command := verbena(t)
	for _, device := range devices {
		theirs, _ := outputOf(t, program, env, "-v", "-d", device)
		ours, _ := outputOf(t, command, nil, "devinfo", "-v", "-d", device)
		ours = ownVersion.ReplaceAllString(ours, "")
		const unnamed = "Unknown flags: 0xC0"
		if strings.Contains(theirs, unnamed) {
			ours = newODP.ReplaceAllString(ours, unnamed)
		}
		want := strings.Split(theirs, "\n")
		for i, line := range strings.Split(ours, "\n") {
			if i >= len(want) || line != want[i] {
				t.Fatalf("line %d: verbena devinfo -v has %q, ibv_devinfo -v %q", i+1, line, append(want, "nothing")[min(i, len(want))])
			}
		}
		if strings.Count(theirs, "\n") != strings.Count(ours, "\n") {
			t.Errorf("ibv_devinfo -v -d %s prints more", device)
		}
	}
}
