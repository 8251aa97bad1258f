// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package capture

import (
	"errors"
	"io"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

// Packet is a RoCEv2 packet of a capture.
type Packet struct {
	roce.Packet
	Src, Dst netip.AddrPort
}

// Judge fails the test if a packet of the capture is malformed to tshark or to
// us, or has a bad ICRC. It returns the RoCEv2 packets, in order; there must be
// some.
func Judge(t testing.TB, file string) []Packet {
	t.Helper()
	judgeByTshark(t, file)
	packets := read(t, file)
	if len(packets) == 0 {
		t.Errorf("no RoCEv2 packet in %s", file)
	}
	return packets
}

// payloadGuesses are the dissectors that tshark tries on the payload of any
// InfiniBand packet and that take test data for a protocol of theirs; one of
// them calls an empty SEND malformed.
var payloadGuesses = []string{
	"smc", "smb_direct", "rpcordma", "nvme-rdma", "lnet", "iser", "ethertype",
	"infiniband.eoib", "infiniband_sdp", "fcoib",
}

func judgeByTshark(t testing.TB, file string) {
	t.Helper()
	// tshark decodes RoCEv2 only: the parameters that pingpong programs exchange by TCP resemble
	// other protocols.
	args := []string{"-n", "-r", file,
		"-o", "udp.ignore_ipv6_zero_checksum:TRUE", // RoCEv2 has the ICRC instead
		"-Y", "udp.dstport == 4791 && (_ws.malformed || _ws.expert.severity == error || " +
			"!infiniband)"}
	for _, name := range payloadGuesses {
		args = append(args, "--disable-protocol", name)
	}
	cmd := exec.Command("tshark", args...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, complaints.String())
	}
	if len(out) != 0 {
		t.Errorf("tshark finds malformed packets in %s:\n%.2000s", file, out)
	}
}

// shownFaults bounds the packets that are reported of one capture.
const shownFaults = 5

func read(t testing.TB, file string) []Packet {
	t.Helper()
	reader, err := pcapread.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var packets []Packet
	faults := 0
	for {
		d, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		p := Packet{Src: d.Src, Dst: d.Dst}
		malformed := p.Parse(append([]byte(nil), d.Payload...))
		goodICRC := d.VerifyICRC()
		packets = append(packets, p)
		if malformed == roce.WellFormed && goodICRC {
			continue
		}
		if faults++; faults <= shownFaults {
			t.Errorf("%s frame %d from %v: %v, ICRC good: %v: % x", file, reader.Frame(), d.Src,
				malformed, goodICRC, d.Payload)
		}
	}
	if faults > shownFaults {
		t.Errorf("%s: %d bad packets in all", file, faults)
	}
	return packets
}
