// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// rootWith makes a directory of verbena run with counter files of a device.
func rootWith(t *testing.T, dir, device string, files ...string) (root string) {
	t.Helper()
	root = filepath.Join(dir, RootName(77, "roce"))
	for _, f := range files {
		path := filepath.Join(root, classDir, device, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// counted has a count of each kind that files show.
func counted(n uint64) []Device {
	return []Device{{Name: "roce_a", Counters: []Counter{{"sent_pkts", 100 * n}, {"sent_bytes", 4096 * n}, {"rcvd_seq_err", 1}, {"implied_nak_seq_err", 2},
		{"local_ack_timeout_err", 4}, {"over_mtu", 5}, {"bad_icrc", 6}, {"malformed_too_short", 7}}}}
}

func TestFilesHaveTheCountsOfNow(t *testing.T) {
	dir := shortDir(t)
	root := rootWith(t, dir, "roce_a", HWFiles+"/sent_pkts", HWFiles+"/completer_retry_err", HWFiles+"/send_err", HWFiles+"/link_downed", HWFiles+"/rdma_sends",
		HWFiles+"/"+Lifespan, PortFiles+"/port_xmit_packets", PortFiles+"/port_xmit_data", PortFiles+"/port_rcv_errors", PortFiles+"/symbol_error")
	rootWith(t, dir, "iwarp_a", HWFiles+"/sent_segments") // a device that nothing has open
	var now atomic.Uint64                                 // the count of the process that is asked
	s, err := Serve(dir, "77-1", func() Snapshot { return Snapshot{Devices: counted(now.Load())} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := uint64(1); n <= 2; n++ {
		now.Store(n)
		if err := FillFiles(root); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]uint64{
			"roce_a/" + HWFiles + "/sent_pkts": 100 * n, "roce_a/" + HWFiles + "/completer_retry_err": 7, "roce_a/" + HWFiles + "/send_err": 5,
			"roce_a/" + HWFiles + "/link_downed": 0, "roce_a/" + HWFiles + "/rdma_sends": 0, "roce_a/" + HWFiles + "/" + Lifespan: 0,
			"roce_a/" + PortFiles + "/port_xmit_packets": 100 * n, "roce_a/" + PortFiles + "/port_xmit_data": 1024 * n,
			"roce_a/" + PortFiles + "/port_rcv_errors": 13, "roce_a/" + PortFiles + "/symbol_error": 0, "iwarp_a/" + HWFiles + "/sent_segments": 0,
		} {
			if b, err := os.ReadFile(filepath.Join(root, classDir, file)); err != nil || string(b) != fmt.Sprintln(want) {
				t.Errorf("%s is %q (%v), want %d", file, b, err, want)
			}
		}
	}
	if list, err := filepath.Glob(filepath.Join(root, classDir, "*", "ports/1/*/*.*")); err != nil || len(list) > 0 {
		t.Errorf("%v are left, %v", list, err)
	}
}

func TestFillOfAnotherDirectory(t *testing.T) {
	for _, name := range []string{"", "root-", "root-77", "other-77-roce", "root-77-roce"} {
		if err := FillFiles(filepath.Join(t.TempDir(), name)); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}
