// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"net/netip"
	"testing"
	"time"

	"verbena/internal/testkit/loopback"
	"verbena/rdmacm"
)

func TestSilenceOfTheConnectionManagerEndsTheClient(t *testing.T) {
	loopback.Device(t)
	m := &managed{e: &endpoint{flows: make([]flow, 1)}, o: &options{service: serviceRC, patience: time.Nanosecond}, events: rdmacm.NewEventChannel()}
	defer m.events.Close()
	defer m.e.close()
	if err := m.dialInTime(t.Context(), 0, netip.MustParseAddrPort("127.0.0.1:18515")); err != errNoAnswer {
		t.Errorf("client: %v", err)
	}
}

func TestSilentClientEndsTheServer(t *testing.T) {
	m := &managed{e: &endpoint{flows: make([]flow, 1)}, o: &options{patience: time.Nanosecond}, events: rdmacm.NewEventChannel()}
	defer m.events.Close()
	if err := m.acceptAll(t.Context(), &Offer{}); err != errNoRequest {
		t.Errorf("server: %v", err)
	}
}
