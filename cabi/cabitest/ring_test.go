// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
)

// TestRing: a failed completion of a C program writes its newest packets, once for both ends and
// the flushed work requests behind it.
func TestRing(t *testing.T) {
	program := compile(t, "verbs_mw")
	lib, _ := libDir()
	dir := t.TempDir()
	_, complaints := outputOf(t, program, []string{"LD_LIBRARY_PATH=" + lib, "VERBENA_PCAP_RING=1M", "VERBENA_PCAP=" + filepath.Join(dir, "x-%p.pcapng")}, "127.0.0.1")
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) == 0 || strings.Count(complaints, "verbena: --pcap-ring: wrote ") != len(files) {
		t.Fatalf("%q\n%s", files, complaints)
	}
	if sections, packets := captured(t, files[0]); sections != 1 || packets < 4 || !strings.Contains(complaints, files[0]) {
		t.Errorf("%d sections with %d packets\n%s", sections, packets, complaints)
	}
}

// TestRingSignal: SIGUSR1 writes the packets of a program that leaves it to its default action. It
// is taken from no other program, nor from the child of a fork.
func TestRingSignal(t *testing.T) {
	program := compile(t, "ring_usr1")
	lib, _ := libDir()
	preload := filepath.Join(lib, "libverbena-preload.so")
	if _, err := os.Stat(preload); err != nil {
		t.Fatal(err)
	}
	for how, written := range map[string]bool{"default": true, "handler": false, "later": false, "ignored": false, "blocked": false, "forked": false} {
		for name, env := range map[string]string{"plain": "", "preloaded": preload} {
			file := filepath.Join(t.TempDir(), "x.pcapng")
			args := []string{how}
			if written {
				args = append(args, file)
			}
			_, complaints := outputOf(t, program, []string{"LD_LIBRARY_PATH=" + lib, "LD_PRELOAD=" + env, "VERBENA_PCAP_RING=1M", "VERBENA_PCAP=" + file}, args...)
			if _, err := os.Stat(file); (err == nil) != written || strings.Contains(complaints, "(SIGUSR1)") != written {
				t.Errorf("%s, %s: %v\n%s", how, name, err, complaints)
			}
		}
	}
}

// TestCallsInACapture: the calls of a C program are in its capture, and need one.
func TestCallsInACapture(t *testing.T) {
	program := compile(t, "verbs_mw")
	lib, _ := libDir()
	dir := t.TempDir()
	env := []string{"LD_LIBRARY_PATH=" + lib, "VERBENA_PCAP_CALLS=1", "VERBENA_PCAP=" + filepath.Join(dir, "x-%p.pcapng")}
	outputOf(t, program, env, "127.0.0.1")
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) == 0 {
		t.Fatal("no capture")
	}
	calls := map[string]int{}
	for _, file := range files {
		r, err := pcapread.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.OnCall = func(c pcap.Call) {
			_, name, _ := strings.Cut(c.Text, "msg=")
			name, _, _ = strings.Cut(name, " ")
			calls[name]++
		}
		for err == nil {
			_, _, err = r.NextPacket()
		}
		if err != io.EOF {
			t.Error(err)
		}
	}
	if calls["ibv_create_qp"] == 0 || calls["ibv_post_send"] == 0 || calls["completion"] == 0 {
		t.Errorf("%v", calls)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "127.0.0.1")
	cmd.Env = append(os.Environ(), env[:2]...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "VERBENA_PCAP_CALLS: capture calls") {
		t.Errorf("without a capture: %v\n%s", err, out)
	}
}
