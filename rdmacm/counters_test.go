// SPDX-License-Identifier: BSD-2-Clause

package rdmacm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"verbena/internal/testkit/loopback"
	"verbena/rdmacm"
	"verbena/verbs"
)

// TestCounters has a manager's counts among the device's, also once it has ended.
func TestCounters(t *testing.T) {
	dev, err := verbs.Open(loopback.Device(t))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	count := func(name string) uint64 {
		for _, c := range dev.Counters() {
			if c.Name == name {
				return c.Value
			}
		}
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// The process that keeps the port answers for services without a listener. It may be another.
	var sent uint64
	for range 2 {
		l, err := rdmacm.ListenAddr("127.0.0.1:0", nil)
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var rejected *rdmacm.RejectedError
		if _, err := rdmacm.Dial(ctx, addr, nil); !errors.As(err, &rejected) {
			t.Fatalf("nobody listens: %v", err)
		}
		if n := count("ibcm_sent"); n <= sent {
			t.Errorf("ibcm_sent is %d after %d", n, sent)
		} else {
			sent = n
		}
		if count("ibcm_received") == 0 {
			t.Error("no answer is counted")
		}
	}
}

// TestProcessesOfAHostAreNotProbed connects over an address of this host. The number of messages
// says nothing: this process may keep the port, and refuse requests of other processes, or repeat
// its own when the process that kept it ends.
func TestProcessesOfAHostAreNotProbed(t *testing.T) {
	dev := openAlone(t, verbs.WithFaults(""))
	defer dev.Close()
	counts := func() (held, probed uint64) {
		for _, c := range dev.Counters() {
			switch c.Name {
			case "ibcm_held":
				held = c.Value
			case "ibcm_probed":
				probed = c.Value
			}
		}
		return held, probed
	}
	held, probed := counts()
	client, server := connect(t, rdmacm.RoCE, "127.0.0.1")
	defer client.Close()
	defer server.Close()
	if h, p := counts(); h != held+1 || p != probed {
		t.Errorf("%d requests for this process, and %d probes of their senders", h-held, p-probed)
	}
}
