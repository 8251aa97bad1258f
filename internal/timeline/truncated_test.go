// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"

	"verbena/ib"
	"verbena/internal/testkit/talk"
	"verbena/internal/wire/roce"
)

// cut returns a capture whose frames have at most n bytes, as tcpdump -s writes it. It has no
// comments.
func cut(t testing.TB, capture []byte, n int) []byte {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(capture), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w := pcapgo.NewWriter(&file)
	if err := w.WriteFileHeader(1<<18, r.LinkType()); err != nil {
		t.Fatal(err)
	}
	for {
		frame, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return file.Bytes()
		} else if err != nil {
			t.Fatal(err)
		}
		frame = frame[:min(n, len(frame))]
		info = gopacket.CaptureInfo{Timestamp: info.Timestamp, CaptureLength: len(frame), Length: info.Length}
		if err := w.WritePacket(info, frame); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTruncatedPackets: a capture that has only the headers of packets shows the bytes that were
// sent, and the same operations.
func TestTruncatedPackets(t *testing.T) {
	datagrams := func() []byte {
		c := talk.New(t)
		for psn := range uint32(3) {
			p := roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, PSN: ib.NewPSN(psn)}, Payload: make([]byte, 999)}
			p.DETH.SrcQP = talk.QPA
			c.Packet(false, p)
			p.DETH.SrcQP = talk.QPB
			c.Packet(true, p)
		}
		return c.Bytes()
	}
	for name, c := range map[string]struct {
		capture []byte
		stream  bool
	}{
		"RC":    {talk.Lossy(t), false},
		"UD":    {datagrams(), false},
		"TRP":   {talk.LossyTRP(t), false},
		"iWARP": {talk.LossyIWARP(t), true},
	} {
		whole := read(t, cut(t, c.capture, 1<<16))
		const headers = 20 + 20 + 48
		got := read(t, cut(t, c.capture, headers))
		if whole.Conns[0].A.Bytes < headers || len(whole.Conns) != 1 {
			t.Fatalf("%s: %d bytes of %d connections", name, whole.Conns[0].A.Bytes, len(whole.Conns))
		}
		if !reflect.DeepEqual(got.Packets.Payload, whole.Packets.Payload) {
			t.Errorf("%s: payloads %v, want %v", name, got.Packets.Payload, whole.Packets.Payload)
		}
		for _, b := range []bool{false, true} {
			if g, w := got.Conns[0].End(b), whole.Conns[0].End(b); g.Bytes != w.Bytes || g.Bad != w.Bad {
				t.Errorf("%s: %s sent %d bytes, and %d packets are bad; want %d, %d", name, Name(b), g.Bytes, g.Bad, w.Bytes, w.Bad)
			}
		}
		if c.stream { // the places of FPDUs in a stream are not known
			continue
		}
		if !reflect.DeepEqual(got.Ops, whole.Ops) || !reflect.DeepEqual(got.Packets, whole.Packets) {
			t.Errorf("%s: operations %+v\nwant %+v", name, got.Ops, whole.Ops)
		}
	}
}

// Less than the headers is no fault of a packet's.
func TestTruncatedHeaders(t *testing.T) {
	for _, capture := range [][]byte{talk.Lossy(t), talk.LossyTRP(t), talk.LossyIWARP(t)} {
		for n := range 100 {
			for _, c := range read(t, cut(t, capture, n)).Conns {
				if c.A.Bad != 0 || c.B.Bad != 0 {
					t.Errorf("%d bytes of each frame: %d and %d packets are bad", n, c.A.Bad, c.B.Bad)
				}
			}
		}
	}
}

// Of a key or an address that is cut off the rest is not taken for it. (A finding named R_Key
// 0x580d0000, and a READ had 74,496 bytes of 74,565.)
func TestTruncatedKeys(t *testing.T) {
	const start, end = 20 + 8 + roce.BTHBytes, 20 + 8 + roce.BTHBytes + roce.RETHBytes
	reth := roce.RETH{VA: 0x1234567890abcdef, RKey: 0x580dad5f, DMALen: 0x12345}
	write, get := talk.New(t), talk.New(t)
	write.Packet(false, roce.Packet{BTH: roce.BTH{Opcode: roce.RCRDMAWriteFirst, PSN: ib.NewPSN(1)}, RETH: reth, Payload: make([]byte, 1024)})
	write.Answer(roce.RCAcknowledge, 1, roce.NAKRemoteAccess, 0)
	get.Packet(false, roce.Packet{BTH: roce.BTH{Opcode: roce.RCRDMAReadRequest, PSN: ib.NewPSN(1)}, RETH: reth})
	refused, asked := write.Bytes(), get.Bytes()
	for n := start; n <= end; n++ {
		text, bytes := "WRITE #1 of A failed at 1µs: Remote Access Error.", uint32(0)
		if n == end {
			text = "WRITE #1 of A failed at 1µs: Remote Access Error, for 74565 bytes at 0x1234567890abcdef by R_Key 0x580dad5f."
			bytes = reth.DMALen
		}
		// The answer to the WRITE keeps its headers, which are shorter.
		if c := read(t, cut(t, refused, n)).Conns[0]; n >= start+roce.AETHBytes && (len(c.Findings) == 0 || c.Findings[0].Text != text) {
			t.Errorf("%d bytes of each frame: %+v, want %q", n, c.Findings, text)
		}
		if ops := read(t, cut(t, asked, n)).Ops; len(ops) != 1 || uint32(ops[0].Bytes) != bytes {
			t.Errorf("%d bytes of each frame: %+v, want %d bytes", n, ops, bytes)
		}
	}
}
