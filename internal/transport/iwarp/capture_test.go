// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/queue"
	"verbena/internal/sys/faultcap"
	"verbena/internal/testkit/rig"
	"verbena/internal/trace"
	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
)

// TestIWARPIsCaptured reads back the capture of a connection: the set-up, and every FPDU of both
// directions with a good CRC.
func TestIWARPIsCaptured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "iwarp.pcapng")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := pcap.NewWriter(f, "test")
	n, m := startNode(t, policy.Nap, engine.Options{Capture: faultcap.NewCapture(w)}), newNode(t, policy.Nap)
	n.Counters, m.Counters = engine.NewDeviceCounters(rdmap.CounterNames()), engine.NewDeviceCounters(rdmap.CounterNames())
	a, b := iwarpEndpoint(n, 1<<20), iwarpEndpoint(m, 1<<20)
	join(a, b, iwarpOptions{crc: true, rtr: mpa.RTRs(mpa.RTRRead)})
	defer b.Close()
	for _, size := range []int{0, 5, 70000, 1 << 20} {
		rig.Transfer(t, a, b, size, 1)
		rig.Transfer(t, b, a, size, 2)
	}
	a.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: b.Region.RKey() + 1})
	a.Want(ib.WCRDMARead, ib.WCRemAccessErr)
	rig.Until(t, "both ends are done", func() bool { return a.Ended.Load() == 1 && b.Ended.Load() == 1 })
	sent, received := n.Counter("sent_segments"), n.Counter("rcvd_segments")
	a.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	r, err := pcapread.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var streams trace.Streams
	setup, fpdus, terminates := 0, uint64(0), 0
	emit := func(i *trace.Item) {
		switch {
		case i.SetUp != nil:
			setup++
			return
		case !i.CRC || i.BadCRC || i.NotCaptured || i.BadMarker:
			t.Errorf("frame %d: %+v", i.Number, i)
		}
		fpdus++
		if h, _, ok := iwarp.ParseHeader(i.ULPDU); ok && h.Opcode == iwarp.Terminate {
			terminates++
		}
	}
	for {
		_, s, err := r.NextPacket()
		if err == io.EOF {
			break
		}
		if err != nil || s == nil {
			t.Fatal(s, err)
		}
		streams.Segment(r.Frame(), s, emit)
	}
	streams.Flush(emit)
	if setup != 2 || fpdus != sent+received || terminates != 1 {
		t.Errorf("%d frames of the set-up, %d FPDUs of %d sent and %d received, %d Terminates", setup, fpdus, sent, received, terminates)
	}
}
