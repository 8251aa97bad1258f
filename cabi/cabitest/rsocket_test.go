// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRsocket runs every program of testdata that tests rsockets.
func TestRsocket(t *testing.T) {
	files, err := filepath.Glob("testdata/rsocket_*.c")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, addr := range addresses(t) {
		for _, f := range files {
			name := strings.TrimSuffix(filepath.Base(f), ".c")
			t.Run(strings.TrimPrefix(name, "rsocket_")+"/"+addr, func(t *testing.T) { run(t, name, addr) })
		}
	}
}

// TestRsocketDefaults tests the administrator's files of rsocket(7).
func TestRsocketDefaults(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(t.TempDir(), "defaults")
	out, err := exec.Command("gcc", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", fmt.Sprintf("-DRS_CONF_DIR=%q", dir),
		"-o", program, "testdata/print_rsocket_defaults.c", "../rsocket/defaults.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  map[string]int
	}{
		{"none", nil, map[string]int{
			"mem_default": 131072, "wmem_default": 131072, "sqsize_default": 384, "rqsize_default": 384,
			"inline_default": 64, "iomap_size": 0, "polling_time": 10, "wake_up_interval": 500,
		}},
		{"said", map[string]string{
			"mem_default": "1000000\n", "wmem_default": "5000", "sqsize_default": "20", "rqsize_default": " 30 ",
			"inline_default": "0", "iomap_size": "300", "polling_time": "0", "wake_up_interval": "50",
		}, map[string]int{
			"mem_default": 1000000, "wmem_default": 5000, "sqsize_default": 20, "rqsize_default": 30,
			"inline_default": 0, "iomap_size": 256, "polling_time": 0, "wake_up_interval": 50, // 300 mappings are no size on the wire
		}},
		{"out of range", map[string]string{
			"mem_default": "0", "wmem_default": "1", "sqsize_default": "1000000", "rqsize_default": "1",
			"inline_default": "many", "wake_up_interval": "0",
		}, map[string]int{
			"mem_default": 2, "wmem_default": 4096, "sqsize_default": 0xfffe, "rqsize_default": 16,
			"inline_default": 64, "wake_up_interval": 1,
		}},
	} {
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command(program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range c.want {
			if line := fmt.Sprintf("%s %d\n", name, want); !strings.Contains(string(out), "\n"+line) && !strings.HasPrefix(string(out), line) {
				t.Errorf("%s: want %q in\n%s", c.name, line, out)
			}
		}
	}
}

// TestDatagramPeersAreBounded: a socket of datagrams forgets the peer that it has had no use for
// since the longest time. It forgets senders that were never answered first, as any host may send.
func TestDatagramPeersAreBounded(t *testing.T) {
	runProgram(t, compile(t, "peers_forgotten", "-D_GNU_SOURCE", "-DPEERS_MAX=4", "-I../include"))
}
