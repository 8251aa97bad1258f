// SPDX-License-Identifier: BSD-2-Clause

//go:build unix

package examples

import (
	"strings"
	"syscall"
	"testing"
)

// Both sides end in order, whichever is notified, killed or stopped.
func TestShutdown(t *testing.T) {
	both := func(t *testing.T) (server, client *process) {
		server, addr := serve(t, "shutdown")
		client = start(t, "shutdown", "-connect", addr, "-grace", "100ms")
		client.want("writing")
		return server, client
	}
	nothingPending := func(t *testing.T, client *process) (out string) {
		t.Helper()
		if out = client.end(0); !strings.HasSuffix(out, " 0 pending\n") {
			t.Errorf("the client: %q", out)
		}
		return out
	}
	serverCloses := func(t *testing.T, server *process) {
		t.Helper()
		server.want("disconnected")
		server.signal(syscall.SIGTERM)
		server.want("closed")
		server.end(0)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run("client "+s.String(), func(t *testing.T) {
			server, client := both(t)
			client.signal(s)
			if out := nothingPending(t, client); !strings.Contains(out, " 0 not") {
				t.Errorf("operations failed: %q", out)
			}
			serverCloses(t, server)
		})
	}
	t.Run("client killed", func(t *testing.T) {
		server, client := both(t)
		client.signal(syscall.SIGKILL)
		client.end(-1)
		serverCloses(t, server)
	})
	t.Run("server terminated", func(t *testing.T) {
		server, client := both(t)
		server.signal(syscall.SIGTERM)
		client.want("the server has gone")
		nothingPending(t, client)
		server.want("disconnected")
		server.want("closed")
		server.end(0)
	})
	t.Run("server killed", func(t *testing.T) {
		server, client := both(t)
		server.signal(syscall.SIGKILL)
		server.end(-1)
		client.want("the server has gone")
		nothingPending(t, client)
	})
	t.Run("server stopped", func(t *testing.T) {
		server, client := both(t)
		server.signal(syscall.SIGSTOP)
		client.signal(syscall.SIGTERM)
		nothingPending(t, client)
		server.signal(syscall.SIGCONT)
		serverCloses(t, server)
	})
}
