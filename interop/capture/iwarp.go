// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package capture

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"verbena/internal/testkit/stream"
	"verbena/internal/wire/iwarp"
)

// Stream is an iWARP connection of a capture, with the bytes of each end, first those of the end
// that connected.
type Stream struct {
	SetUp [2]iwarp.MPAFrame
	FPDUs [2][]FPDU
}

// FPDU is a DDP segment with the fields of its opcode.
type FPDU struct {
	iwarp.Header
	Payload []byte
}

// Terminate returns the error that an end sent, false if it sent none.
func (s *Stream) Terminate(end int) (iwarp.TermError, bool) {
	for _, f := range s.FPDUs[end] {
		if f.Opcode == iwarp.Terminate {
			m, _, ok := iwarp.ParseTermMsg(f.Payload)
			return m.TermError, ok
		}
	}
	return iwarp.TermError{}, false
}

// JudgeIWARP fails the test if an FPDU of the capture is malformed to tshark or to us. It also
// fails if one has a bad CRC where the two ends agreed on CRCs. It returns the connections to a
// port; there must be some.
func JudgeIWARP(t testing.TB, file string) []Stream {
	t.Helper()
	all, err := stream.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []Stream
	fpdus, crcs := 0, 0
	for _, c := range all {
		if len(c.Sent[0]) == 0 { // nobody said anything
			continue
		}
		s := Stream{}
		checked := false
		for end, b := range c.Sent {
			if c.Missing[end] {
				t.Errorf("%s: %s: bytes are missing", file, c.Name)
			}
			var ok bool
			if s.SetUp[end], b, ok = iwarp.ParseMPAFrame(b); !ok {
				continue // it gave up
			}
			checked = checked || s.SetUp[end].CRC
			var err error
			if s.FPDUs[end], err = fpdusOf(b, s.SetUp[0].CRC || s.SetUp[1].CRC); err != nil {
				t.Errorf("%s: %s, end %d: %v", file, c.Name, end, err)
			}
			fpdus += len(s.FPDUs[end])
		}
		if checked {
			crcs += len(s.FPDUs[0]) + len(s.FPDUs[1])
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		t.Fatalf("no iWARP connection in %s", file)
	}
	judgeStreamsByTshark(t, file, fpdus, crcs)
	return out
}

// fpdusOf takes a stream behind its set-up apart. The bytes after the last whole FPDU were cut off
// by a reset.
func fpdusOf(b []byte, crc bool) (out []FPDU, err error) {
	for len(b) > 0 {
		n, after, ok := iwarp.ParseLength(b)
		whole := iwarp.FPDUBytes(n)
		if !ok || len(b) < whole {
			return out, nil
		}
		sum, _, _ := iwarp.ParseCRC(b[whole-iwarp.CRCBytes:])
		if want := iwarp.UpdateCRC(0, b[:whole-iwarp.CRCBytes]); crc && sum != want {
			return out, fmt.Errorf("FPDU %d: CRC %08x, want %08x", len(out), sum, want)
		}
		b = b[whole:]
		if n == 0 { // a ready-to-receive message of no bytes
			out = append(out, FPDU{})
			continue
		}
		h, payload, ok := iwarp.ParseHeader(after[:n])
		if !ok || !h.Opcode.Info().Valid {
			return out, fmt.Errorf("FPDU %d: % x", len(out), after[:min(n, 20)])
		}
		out = append(out, FPDU{h, payload})
	}
	return out, nil
}

// streamGuesses keep tshark from taking a stream for another protocol's, because of its bytes or of
// its port: the system may choose one that tshark knows, such as 44818.
var streamGuesses = []string{"-o", "tcp.try_heuristic_first:TRUE", "--disable-protocol", "rpcordma",
	"--disable-protocol", "smb_direct",
	"--disable-heuristic", "smb_direct_iwarp", "--disable-heuristic", "rpcrdma_iwarp"}

// judgeStreamsByTshark has tshark count FPDUs, and of them those with a good CRC.
func judgeStreamsByTshark(t testing.TB, file string, fpdus, crcs int) {
	t.Helper()
	args := append([]string{"-n", "-r", file, "-Y", "iwarp_mpa", "-O", "iwarp_mpa,_ws.malformed"},
		streamGuesses...)
	out, err := exec.Command("tshark", args...).Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	text := string(out)
	seen, good, bad := strings.Count(text, "ULPDU length:"), strings.Count(text,
		"Good CRC32"), strings.Count(text, "Bad CRC32")
	if malformed := strings.Count(text, "Malformed"); seen != fpdus || good != crcs || bad != 0 ||
		malformed != 0 {
		t.Errorf("%s: tshark sees %d FPDUs, %d good CRCs, %d bad, %d malformed packets; there "+
			"are %d FPDUs, %d with a CRC",
			file, seen, good, bad, malformed, fpdus, crcs)
	}
}
