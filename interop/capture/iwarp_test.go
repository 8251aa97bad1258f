// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package capture_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"verbena/interop/capture"
)

// A port of the system's choice may be one that tshark knows another protocol by: with 44818,
// EtherNet/IP's, it saw no FPDU of the connection.
func TestJudgeIWARPAtAnyPort(t *testing.T) {
	b, err := os.ReadFile("../../testdata/captures/siw-rping.pcap")
	if err != nil {
		t.Fatal(err)
	}
	client, server, known := []byte{51906 >> 8, 51906 & 0xff}, []byte{7174 >> 8, 7174 & 0xff}, []byte{44818 >> 8, 44818 & 0xff}
	for _, ports := range [][2][]byte{{client, server}, {server, client}} {
		from := bytes.Join(ports[:], nil)
		b = bytes.ReplaceAll(b, from, bytes.ReplaceAll(from, client, known))
	}
	file := filepath.Join(t.TempDir(), "siw.pcap")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := len(capture.JudgeIWARP(t, file)); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
