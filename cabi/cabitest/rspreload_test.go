// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// preloaded returns a command that runs over librspreload.so.1.
func preloaded(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "LD_PRELOAD="+filepath.Join(lib, "librspreload.so.1"))
	cmd.WaitDelay = time.Second
	return cmd
}

// TestPreloadedCalls runs a program that checks each call.
func TestPreloadedCalls(t *testing.T) {
	program := filepath.Join(t.TempDir(), "rspreload")
	out, err := exec.Command("gcc", "-O1", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/rspreload.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, addr := range addresses(t) {
		if out, err := preloaded(t, program, addr).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", addr, err, out)
		}
	}
}

// TestPreloadedHTTP: curl fetches a file from Python's server; neither knows RDMA.
func TestPreloadedHTTP(t *testing.T) {
	for _, program := range []string{"python3", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	want := bytes.Repeat([]byte("over rsockets\n"), 200_000)
	if err := os.WriteFile(filepath.Join(dir, "file"), want, 0o644); err != nil {
		t.Fatal(err)
	}
	// The system chooses the port, which the program prints.
	const serve = `
import functools, http.server, sys
server = http.server.ThreadingHTTPServer((sys.argv[1], 0), functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[2]))
print(server.server_port, flush=True)
server.serve_forever()
`
	addr := addresses(t)[0]
	server := preloaded(t, "python3", "-c", serve, addr, dir)
	said, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	var port int
	if _, err := fmt.Fscan(said, &port); err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("http://%s:%d/file", addr, port)
	for range 3 {
		got, err := preloaded(t, "curl", "-sS", "--max-time", "20", url).Output()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
		}
	}
	// Without the preload library there is no server, so the file did not go by TCP.
	if err := exec.Command("curl", "-sS", "--max-time", "20", url).Run(); err == nil {
		t.Error("the server listens on a TCP port as well")
	}
}

// TestPreloadedFork: a server of rdma-core forks a child for the connection, with RDMAV_FORK_SAFE=1
// at both ends.
func TestPreloadedFork(t *testing.T) {
	if _, err := exec.LookPath("rstream"); err != nil {
		t.Skip(err)
	}
	addr := addresses(t)[0]
	options := []string{"-p", "17471", "-T", "b", "-C", "100", "-S", "10000"}
	server := preloaded(t, "stdbuf", append([]string{"-oL", "rstream", "-b", addr, "-T", "f"}, options...)...)
	server.Env = append(server.Env, "RDMAV_FORK_SAFE=1")
	said, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := said.Read(make([]byte, 4)); err != nil { // the heading: it listens
		t.Fatal(err)
	}
	capture := filepath.Join(t.TempDir(), "client.pcap")
	client := preloaded(t, "rstream", append([]string{"-s", addr, "-T", "s"}, options...)...)
	client.Env = append(client.Env, "RDMAV_FORK_SAFE=1", "VERBENA_PCAP="+capture)
	if out, err := client.CombinedOutput(); err != nil {
		t.Errorf("client: %v\n%s", err, out)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("server: %v", err)
	}
	// The capture has the 2 MB.
	if info, err := os.Stat(capture); err != nil || info.Size() < 2_000_000 {
		t.Errorf("the data took another way: %v, %v", info, err)
	}
}
