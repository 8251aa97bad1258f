// SPDX-License-Identifier: BSD-2-Clause

//go:build unix

package examples

import (
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The example of gRPC is a module of its own: its tests are those of gRPC over streams of RDMA.
func TestGRPC(t *testing.T) {
	const limit = 3 * time.Minute // to download, or to build, on a slow machine
	inModule := func(args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = "grpc"
		return cmd.CombinedOutput()
	}
	if out, err := inModule("mod", "download"); err != nil {
		t.Skipf("the modules of examples/grpc are not here and cannot be had: %v\n%s", err, out)
	}
	for _, args := range [][]string{
		{"test", "./..."},
		{"build", "-ldflags=-s -w", "-o", filepath.Join(bin, "grpc"), "."},
	} {
		if out, err := inModule(args...); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	for _, network := range []string{"roce", "trp"} {
		server, addr := serve(t, "grpc", "-network", network)
		client := start(t, "grpc", "-network", network, "-connect", addr)
		client.want("SERVING")
		server.signal(syscall.SIGTERM)
		same(t, "states", client.end(0), "SERVING\nNOT_SERVING\n")
		server.end(0)
	}
}
