// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
