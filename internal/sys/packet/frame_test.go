// SPDX-License-Identifier: BSD-2-Clause

package packet

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// The kernel may leave a datagram's checksum to an adapter, and take out a frame's VLAN tag. Both
// are undone.
func TestFrameIsCompleted(t *testing.T) {
	b := make([]byte, 100)
	frame, err := hex.DecodeString("020000000001" + "020000000002" + "0800" +
		"4500001e00000000401100000a0000010a000002" + // IPv4
		"00010002000a" + "141f" + "6869") // UDP: the sum of the pseudo header, and two bytes
	if err != nil {
		t.Fatal(err)
	}
	n := copy(b, frame)
	a := arrival{unsummed: true, sumStart: 34, sumOffset: 6, tagged: true, tpid: 0x8100, id: 0x2005}
	got, ok := a.complete(b, n)
	if !ok || len(got) != n+4 || !bytes.Equal(got[:12], frame[:12]) || hex.EncodeToString(got[12:16]) != "81002005" || !bytes.Equal(got[16:16+26], frame[12:12+26]) {
		t.Fatalf("%x, %v", got, ok)
	}
	if sum := hex.EncodeToString(got[n+4-4 : n+4-2]); sum != "836a" {
		t.Errorf("checksum %s", sum)
	}
}

// Whatever the kernel's description of a frame says, nothing outside the frame is touched.
func FuzzComplete(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), true, 14, 0, true)
	f.Fuzz(func(t *testing.T, frame []byte, unsummed bool, start, offset int, tagged bool) {
		b := append(bytes.Clone(frame), make([]byte, tagBytes+3)...)
		a := arrival{unsummed: unsummed, sumStart: start, sumOffset: offset, tagged: tagged}
		got, ok := a.complete(b, len(frame))
		if ok && (len(got) < len(frame) || len(got) > len(frame)+tagBytes) {
			t.Fatalf("%d bytes of %d", len(got), len(frame))
		}
		if !bytes.Equal(b[len(frame)+tagBytes:], make([]byte, 3)) {
			t.Fatal("bytes behind the frame were written")
		}
	})
}
