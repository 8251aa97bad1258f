// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"runtime"
	"strings"
	"testing"

	"verbena/internal/testkit/loopback"
)

// Every measure on the devices of iWARP, which are connected by the connection
// manager whether -R is said or not.
func TestEveryMeasureOverIWARP(t *testing.T) {
	for _, kind := range []string{"iwarp", "trp"} {
		if kind == "iwarp" && runtime.GOOS != "linux" {
			continue // there is none
		}
		dev := kind + strings.TrimPrefix(loopback.Device(t), "roce")
		for _, c := range []struct{ op, metric, line string }{
			{"write", "bw", "-s 65536 -n 100"},
			{"write", "bw", "-s 8 -n 333 -t 64 -I 16 -q 3"},
			{"read", "bw", "-s 20000 -n 50 -q 2"},
			{"send", "bw", "-s 4096 -n 200 -b -e"},
			{"send", "bw", "-s 65536"},
			{"atomic", "bw", "-n 100"},
			{"write", "lat", "-s 2 -n 50"},
			{"read", "lat", "-s 2 -n 50 -e"},
			{"send", "lat", "-s 2 -n 50 -R"},
			{"atomic", "lat", "-n 50"},
		} {
			t.Run(strings.Join([]string{kind, c.op, c.metric, c.line}, " "), func(t *testing.T) {
				test := test{op: c.op, metric: c.metric}
				out, serverErr, clientErr := bothOn(t, dev, test, test, "", c.line)
				if serverErr != nil || clientErr != nil {
					t.Fatalf("server: %v; client: %v", serverErr, clientErr)
				}
				if !strings.Contains(out, `"rdmacm": true`) {
					t.Errorf("not connected by the connection manager:\n%s", out)
				}
			})
		}
		test := test{op: "send", metric: "bw"}
		if _, _, err := bothOn(t, dev, test, test, "", "-s 4096 -n 3000"); (kind == "iwarp") != (err != nil && strings.Contains(err.Error(), "-n 256")) {
			t.Errorf("%s, more SENDs than receives: %v", kind, err)
		}
		if _, _, err := bothOn(t, dev, test, test, "", "-c UD -n 10"); err == nil || !strings.Contains(err.Error(), "devices of kind "+kind+" have RC queue pairs only") {
			t.Errorf("%s, datagrams: %v", kind, err)
		}
		_, serverErr, err := bothOn(t, dev, test, test, "", "-n 10 -d "+loopback.Device(t))
		for _, err := range []error{serverErr, err} {
			if err == nil || !strings.Contains(err.Error(), "the client's device is of kind roce, the server's of "+kind) {
				t.Errorf("a client of RoCE: %v", err)
			}
		}
	}
}
