// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// linked are the packages of other modules that an import of the public packages
// links into a program.
var linked = []string{"golang.org/x/net/bpf", "golang.org/x/sys/unix", "golang.org/x/sys/windows"}

// A program that imports verbs and rdmacm does not link packages that only tools need: those that
// read captures, list interfaces by netlink, or parse command lines.
func TestLibraryLinksLittle(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./ib", "./verbs", "./rdmacm")
		cmd.Env = append(cmd.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages := strings.Fields(string(out))
		if !slices.Contains(packages, module+"/verbs") {
			t.Fatalf("go list does not have verbs: %s", out)
		}
		for _, p := range packages {
			dir, ours := local(p)
			switch {
			case ours && within(dir, "internal/tools", "internal/trace", "internal/simnet", "internal/flows", "internal/testkit", "internal/wire/pcapread"):
				t.Errorf("%s: %s is linked into programs that import verbs or rdmacm: it is for tools", system, p)
			case !ours && !slices.Contains(linked, p):
				t.Errorf("%s: %s is linked into programs that import verbs or rdmacm: do without, or add it to linked with a row in docs/design/dependencies.md", system, p)
			}
		}
	}
}

// maxProgramBytes bounds a small program over verbs and rdmacm, built by -trimpath
// so that the length of the checkout's path does not count. With gopacket and
// netlink it was 11.4 MB.
const maxProgramBytes = 10_000_000

func TestSmallProgramIsSmall(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	const text = `package main

import (
	"context"
	"fmt"

	"verbena/rdmacm"
	"verbena/verbs"
)

func main() {
	devices, err := verbs.Devices()
	fmt.Println(len(devices), err)
	fmt.Println(rdmacm.Dial(context.Background(), "127.0.0.1:7471", nil))
}
`
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, source)
	cmd.Env = append(cmd.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxProgramBytes {
		t.Errorf("a program over verbs and rdmacm has %d bytes, more than %d: see `go list -deps` for what is new", info.Size(), maxProgramBytes)
	}
}
