// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"path/filepath"
	"testing"

	"verbena/internal/testkit/replay"
	"verbena/internal/wire/roce"
)

// TestRNRTimerOfRunningQP: the RNR NAKs of a C program have the min_rnr_timer that it gave a queue
// pair in RTS.
func TestRNRTimerOfRunningQP(t *testing.T) {
	lib, _ := libDir()
	dir := t.TempDir()
	outputOf(t, compile(t, "rnr_timer"), []string{"LD_LIBRARY_PATH=" + lib, "VERBENA_PCAP=" + filepath.Join(dir, "x-%p.pcapng")}, "20")
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 1 {
		t.Fatalf("captures: %q", files)
	}
	all, err := replay.Load(files[0])
	if err != nil {
		t.Fatal(err)
	}
	naks := 0
	for _, c := range all {
		for _, p := range c.Packets {
			if p.Info.HasAETH && p.AETH.Syndrome.Kind() == roce.KindRNRNAK {
				naks++
				if got := p.AETH.Syndrome.Value(); got != 20 {
					t.Errorf("an RNR NAK with the code %d", got)
				}
			}
		}
	}
	if naks == 0 {
		t.Error("no RNR NAK")
	}
}
