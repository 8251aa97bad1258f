// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
)

// TestObstaclesAreSaid: each obstacle with which no program can work is reported unasked, in one
// line that says what to do.
func TestObstaclesAreSaid(t *testing.T) {
	if _, here := newNetwork(t); !here {
		return
	}
	program, devices := compile(t, "obstacle"), compile(t, "print_devices")
	lib, _ := libDir()
	refuse := "" // families of sockets
	try := func(t *testing.T, could, limit, dir string, want ...string) {
		t.Helper()
		out, complaint := outputOf(t, "/bin/sh", []string{"LD_LIBRARY_PATH=" + lib, "XDG_RUNTIME_DIR=" + dir, "VERBENA_KEEPER=/nonexistent",
			"LOOP_DEVICE=roce_d0", "LOOP_ADDRESS=192.0.2.1"}, "-c", limit+" exec "+program+refuse)
		if got := strings.TrimSpace(out); got != could {
			t.Errorf("%s of 4 worked, want %s", got, could)
		}
		if lines := strings.Count(complaint, "\n"); lines != min(len(want), 1) || lines > 0 && !strings.HasPrefix(complaint, "verbena: ") {
			t.Errorf("%d lines: %s", lines, complaint)
		}
		for _, w := range want {
			if !strings.Contains(complaint, w) {
				t.Errorf("no %q in %s", w, complaint)
			}
		}
	}
	t.Run("none", func(t *testing.T) { try(t, "4", "", t.TempDir()) })
	t.Run("port", func(t *testing.T) {
		s, err := udp.Listen(netip.MustParseAddr("192.0.2.1"), portshare.Port, udp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		try(t, "0", "", t.TempDir(), "4791", "192.0.2.1", "is taken", "stop it")
	})
	t.Run("directory", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "verbena"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		try(t, "0", "", dir, "no runtime directory", "set XDG_RUNTIME_DIR")
	})
	t.Run("slots", func(t *testing.T) {
		dir := t.TempDir()
		for range portshare.Slots {
			m, err := portshare.Join(filepath.Join(dir, "verbena"), portshare.Options{
				MADRules: portshare.MADRules{Route: func([]byte, netip.Addr) portshare.Route { return portshare.Route{} }},
				OnMAD:    func(portshare.MAD) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
		}
		try(t, "0", "", dir, fmt.Sprintf("all %d slots are taken", portshare.Slots), "verbena stat")
	})
	t.Run("link", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), devices)
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "VERBENA_NTB=shm:/nonexistent/x", "VERBENA_DEVICES=roce,ntb")
		out, err := cmd.CombinedOutput()
		if said := string(out); err == nil || strings.Count(said, "verbena: ") != 1 || !strings.Contains(said, "VERBENA_NTB") ||
			!strings.Contains(said, "parent directory /nonexistent does not exist") {
			t.Errorf("%v, %s", err, said)
		}
	})
	for _, wrong := range []struct{ setting, allowed string }{
		{"VERBENA_FAULTS=loss", "write it as key=value"},
		{"VERBENA_FAULTS=lost=1%", "use loss, "},
		{"VERBENA_FAULTS=loss=2", "a share from 0% to 100%"},
		{"VERBENA_LOG=loud", `"loud": must be debug, info or warn`},
		{"VERBENA_CONGESTION=cubic", "cubic: no such congestion control; use delivery-rate or dcqcn"},
		{"VERBENA_XDP=eth0:0", "is no interface: want a name such as eth0, or eth0:4 for 4 queues"},
		{"VERBENA_XDP=none0", "none0: a program that keeps the port itself cannot do that: install verbena"},
		{"VERBENA_PCAP_RING=64", `VERBENA_PCAP_RING: "64": must be a size from 1M to 1G, such as 64M`},
		{"VERBENA_PCAP=/nonexistent/x.pcapng", "no such file or directory); name a file that is not there yet"},
		{"VERBENA_PCAP=" + program, "file exists); name a file that is not there yet"},
	} {
		t.Run(wrong.setting, func(t *testing.T) {
			name, _, _ := strings.Cut(wrong.setting, "=")
			try(t, "0", wrong.setting, t.TempDir(), name+": ", wrong.allowed)
		})
	}
	for name, family := range map[string]int{"AF_UNIX": syscall.AF_UNIX, "AF_INET": syscall.AF_INET} {
		t.Run(name, func(t *testing.T) {
			refuse = fmt.Sprint(" ", family)
			defer func() { refuse = "" }()
			try(t, "0", "", t.TempDir(), "socket(2) is refused for "+name+": a seccomp filter")
		})
	}
	t.Run("AF_NETLINK", func(t *testing.T) { // not even a list
		cmd := exec.CommandContext(t.Context(), program, fmt.Sprint(syscall.AF_NETLINK))
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib)
		out, err := cmd.CombinedOutput()
		if said := string(out); err == nil || strings.Count(said, "verbena: ") != 1 || !strings.Contains(said, "socket(2) is refused for AF_NETLINK") {
			t.Errorf("%v, %s", err, said)
		}
	})
	// How many descriptors a context takes depends on the interfaces. The first limit that leaves
	// enough for it does not leave enough for the port.
	t.Run("descriptors", func(t *testing.T) {
		limit := ""
		for n := 24; n < 64; n++ {
			limit = fmt.Sprintf("ulimit -n %d;", n)
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", limit+" exec "+program)
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "XDG_RUNTIME_DIR="+t.TempDir(),
				"VERBENA_KEEPER=/nonexistent", "LOOP_DEVICE=roce_d0", "LOOP_ADDRESS=192.0.2.1")
			if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), "ctx does not hold") {
				break
			}
		}
		try(t, "0", limit, t.TempDir(), "too many open files", "ulimit -") // -n of the process, or -Hn of the keeper
	})
}
