// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"verbena/interop/guest"
)

// programs is the folder of the programs that the tests run.
var programs = func() string {
	dir, err := filepath.Abs("../bin/interop")
	if err != nil {
		panic(err) // there is no working directory
	}
	return dir
}()

// buildPrograms builds the programs that the tests run. One that does not build is reported at once
// and removed; the tests that want it then miss it.
func buildPrograms() error {
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return err
	}
	for name, build := range map[string]string{
		"verbena":           "go build -o $0 ../cmd/verbena",
		"peer":              "go build -o $0 ./peer",
		"rdmacore-peer":     "gcc -O2 -Wall -o $0 peer/rdmacore/peer.c -lrdmacm -libverbs",
		"verbs_as_rxe":      "gcc -O2 -Wall -o $0 ../cabi/cabitest/testdata/verbs_as_rxe.c -libverbs",
		"verbs_failed_peer": "gcc -O2 -Wall -o $0 ../cabi/cabitest/testdata/verbs_failed_peer.c -libverbs",
		"verbs_unmapped":    "gcc -O2 -Wall -o $0 ../cabi/cabitest/testdata/verbs_unmapped.c -libverbs",
		"lib":               "make -s -C ../cabi OUT=$0 engine libibverbs librdmacm librspreload",
	} {
		path := filepath.Join(programs, name)
		if out, err := exec.Command("sh", "-c", build, path).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "interop: %s: %v\n%s", build, err, out)
			os.Remove(path)
		}
	}
	return nil
}

// rdmaTool returns the command for a program of rdma-core on the host: in a
// guest the program itself, on our side the subcommand of verbena that speaks
// to it and has its options. Output comes line by line.
func rdmaTool(host guest.Host, rdmaCore, ours string) string {
	if _, isGuest := host.(*guest.Guest); isGuest {
		return "stdbuf -oL " + rdmaCore
	}
	return filepath.Join(programs, "verbena") + " " + ours
}

// peerProgram returns the command for peer on the host: in a guest the one
// made with rdma-core, on our side the one made with verbs and rdmacm.
func peerProgram(host guest.Host) string {
	name := "peer"
	if _, isGuest := host.(*guest.Guest); isGuest {
		name = "rdmacore-peer"
	}
	return filepath.Join(programs, name)
}
