// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"path/filepath"
	"testing"

	"verbena/verbs"
)

// TestEveryModeOverNTB has both ends of an NTB link in this process.
func TestEveryModeOverNTB(t *testing.T) {
	end := "10.99.0.1+10.99.0.2=shm:" + filepath.Join(t.TempDir(), "link")
	if err := verbs.UseLinks(end + "," + end); err != nil {
		t.Fatal(err)
	}
	defer verbs.UseLinks("")
	for _, c := range []struct{ server, client, want string }{
		{"", "-C 20 -V -S 65535", ""},
		{"--mem fastreg", "--mem fastreg -C 10 -V", ""},
		{"--mem fastreg --server-inv", "--mem fastreg --server-inv -C 10 -V", ""},
		{"--mem fastreg --read-inv", "--mem fastreg -C 10 -V", ""},
		{"--mem mw", "--mem mw -C 10 -V", ""},
		{"--mem mw --server-inv", "--mem mw --server-inv -C 10 -V", ""},
		{"--wlat -C 50", "--wlat -C 50", "WRITE latency"},
		{"--rlat -C 20", "--rlat -C 20", "READ latency"},
		{"--bw -C 50 -S 65535", "--bw -C 50 -S 65535 --txdepth 8", "WRITE bandwidth"},
		{"--bw --duplex -C 50", "--bw --duplex -C 50", "delta nsec "},
	} {
		t.Run(c.server+" | "+c.client, func(t *testing.T) {
			exchange(t, "10.99.0.2", "--kind ntb "+c.server, "--kind ntb "+c.client, c.want)
		})
	}
}
