// SPDX-License-Identifier: BSD-2-Clause

package roce_test

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

// captured is one packet of real rxe traffic.
type captured struct {
	file   string
	frame  int
	pseudo roce.Pseudo
	id     uint16
	v6     bool
	bytes  []byte
}

// captures reads every packet of testdata/captures.
func captures(t testing.TB) []captured {
	t.Helper()
	files, err := filepath.Glob("../../../testdata/captures/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	var all []captured
	for _, f := range files {
		r, err := pcapread.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		for {
			d, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, captured{filepath.Base(f), r.Frame(), d.Pseudo(), d.IPID, d.Src.Addr().Is6(), bytes.Clone(d.Payload)})
		}
		r.Close()
	}
	return all
}

// TestCapturesRoundTrip decodes every packet of rxe's and encodes it again,
// ICRC included, to the same bytes.
func TestCapturesRoundTrip(t *testing.T) {
	all := captures(t)
	seen := map[roce.Opcode]int{}
	for _, c := range all {
		var p roce.Packet
		if m := p.Parse(c.bytes); m != roce.WellFormed {
			t.Errorf("%s frame %d: %v", c.file, c.frame, m)
			continue
		}
		seen[p.Opcode]++
		if got := c.pseudo.Seal(p.Append(nil), c.id); !bytes.Equal(got, c.bytes) {
			t.Errorf("%s frame %d: %v\n got %x\nwant %x", c.file, c.frame, p.Opcode, got, c.bytes)
		}
	}
	t.Logf("%d packets, opcodes %v", len(all), seen)
}

// TestCapturesICRC checks every ICRC of rxe's with the identification that the
// capture shows, and again without telling it.
func TestCapturesICRC(t *testing.T) {
	for _, c := range captures(t) {
		if !c.pseudo.VerifyWithID(c.bytes, c.id) {
			t.Errorf("%s frame %d: wrong ICRC", c.file, c.frame)
		}
		for _, hint := range []uint16{0, 1, 0xffff} {
			id, ok := c.pseudo.Verify(c.bytes, hint)
			if !ok || id != c.id && !c.v6 {
				t.Errorf("%s frame %d: Verify(hint %d) = %d, %v; want %d", c.file, c.frame, hint, id, ok, c.id)
			}
		}
	}
}

// TestCapturesCorrupted flips bits: none passes a check with the identification
// known, and no more than 1 in 65,536 passes where it is solved.
func TestCapturesCorrupted(t *testing.T) {
	const ecnByte = 4 // masked
	tried, survived := 0, 0
	for _, c := range captures(t) {
		b := bytes.Clone(c.bytes)
		for bit := c.frame % 41; bit < len(b)*8; bit += 41 {
			b[bit/8] ^= 1 << (bit % 8)
			masked := bit/8 == ecnByte
			if got := c.pseudo.VerifyWithID(b, c.id); got != masked {
				t.Errorf("%s frame %d bit %d flipped: VerifyWithID = %v", c.file, c.frame, bit, got)
			}
			id, ok := c.pseudo.Verify(b, 0)
			if masked && (!ok || id != c.id && !c.v6) {
				t.Errorf("%s frame %d: masked bit %d matters", c.file, c.frame, bit)
			}
			if !masked {
				tried++
				if ok {
					survived++
				}
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
	if limit := 1 + 4*tried/65536; survived > limit {
		t.Errorf("%d of %d corrupted packets accepted, want at most %d", survived, tried, limit)
	}
	t.Logf("%d of %d accepted", survived, tried)
}

// TestCapturesPrefixes cuts packets short at every length.
func TestCapturesPrefixes(t *testing.T) {
	seen := map[roce.Opcode]bool{}
	for _, c := range captures(t) {
		if o := roce.Opcode(c.bytes[0]); seen[o] {
			continue
		} else {
			seen[o] = true
		}
		var p roce.Packet
		for n := range len(c.bytes) {
			cut := c.bytes[:n:n]
			if p.Parse(cut) == roce.WellFormed && c.pseudo.VerifyWithID(cut, c.id) {
				t.Errorf("%s frame %d: the first %d of %d bytes pass for a packet", c.file, c.frame, n, len(c.bytes))
			}
			if short := n < p.Info.HeaderBytes+roce.ICRCBytes; short && p.Parse(cut) == roce.WellFormed {
				t.Errorf("%s frame %d: %d bytes hold no %v", c.file, c.frame, n, p.Opcode)
			}
		}
	}
}
