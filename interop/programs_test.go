//go:build linux && interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"verbena/interop/guest"
)

// programsEnv tells the test process inside where the programs are.
const programsEnv = "VERBENA_INTEROP_PROGRAMS"

// buildPrograms builds what the tests run into a new folder. One that does not
// build is reported at once, and missed by the tests that want it.
func buildPrograms() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "verbena-interop"); err != nil {
		return "", err
	}
	// The guests, which are other users, run them too.
	if err = os.Chmod(dir, 0o755); err != nil {
		return dir, err
	}
	if err = os.Setenv(programsEnv, dir); err != nil {
		return dir, err
	}
	for _, build := range [][]string{
		{"go", "build", "-o", filepath.Join(dir, "verbena"), "../cmd/verbena"},
		{"go", "build", "-o", filepath.Join(dir, "peer"), "./peer"},
		{"gcc", "-O2", "-Wall", "-o", filepath.Join(dir, "rdmacore-peer"), "peer/rdmacore/peer.c", "-lrdmacm", "-libverbs"},
	} {
		if out, err := exec.Command(build[0], build[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "interop: %v: %v\n%s", build, err, out)
		}
	}
	return dir, nil
}

// rdmaTool returns the command for a program of rdma-core on the host: in a
// guest the program itself, on our side the subcommand of verbena that speaks
// to it and has its options. Output comes line by line.
func rdmaTool(host guest.Host, rdmaCore, ours string) string {
	if _, isGuest := host.(*guest.Guest); isGuest {
		return "stdbuf -oL " + rdmaCore
	}
	return filepath.Join(os.Getenv(programsEnv), "verbena") + " " + ours
}

// peerProgram returns the command for peer on the host: in a guest the one
// made with rdma-core, on our side the one made with verbs and rdmacm.
func peerProgram(host guest.Host) string {
	name := "peer"
	if _, isGuest := host.(*guest.Guest); isGuest {
		name = "rdmacore-peer"
	}
	return filepath.Join(os.Getenv(programsEnv), name)
}
