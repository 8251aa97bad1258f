// SPDX-License-Identifier: BSD-2-Clause

package cm

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"path/filepath"
	"testing"

	"verbena/ib"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

const captures = "../../../testdata/captures"

// capturedMADs returns every MAD that Linux's rxe sent in the captures.
func capturedMADs(t testing.TB) [][]byte {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(captures, "rxe*.pcap"))
	if len(names) == 0 {
		t.Fatalf("no captures in %s", captures)
	}
	var mads [][]byte
	for _, name := range names {
		mads = append(mads, madsOf(t, name)...)
	}
	return mads
}

func madsOf(t testing.TB, name string) [][]byte {
	t.Helper()
	r, err := pcapread.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var mads [][]byte
	for {
		d, err := r.Next()
		if errors.Is(err, io.EOF) {
			return mads
		}
		if err != nil {
			t.Fatal(err)
		}
		var p roce.Packet
		if p.Parse(d.Payload) == roce.WellFormed && p.DestQP == ib.QP1 {
			mads = append(mads, bytes.Clone(p.Payload))
		}
	}
}

func TestCapturedMADsReencodeByteForByte(t *testing.T) {
	mads := capturedMADs(t)
	seen := map[Attribute]int{}
	for _, mad := range mads {
		h, data, ok := ParseHeader(mad)
		if !ok || len(mad) != MADSize {
			t.Fatalf("a MAD of %d bytes", len(mad))
		}
		if want := NewHeader(h.Attribute, h.TransactionID); h != want {
			t.Errorf("header %+v, want %+v", h, want)
		}
		body, _, ok := reencode(h.Attribute, data)
		if !ok {
			t.Errorf("%v does not parse", h.Attribute)
		}
		if got := append(h.Append(nil), body...); !bytes.Equal(got, mad) {
			t.Errorf("%v encodes to\n%x\nwas\n%x", h.Attribute, got, mad)
		}
		seen[h.Attribute]++
	}
	for _, a := range []Attribute{AttrREQ, AttrREP, AttrRTU, AttrREJ, AttrDREQ, AttrDREP, AttrSIDRREQ, AttrSIDRREP} {
		if seen[a] == 0 {
			t.Errorf("no %v in the captures", a)
		}
	}
}

// The output of tshark 4.0.17 for the first REQ of rxe-rping.pcap, but for the flow label: the
// bytes are 60 8f 60 00, tshark shows 0x00608 and a rate of 0x20 because it reads that word one
// byte early.
func TestREQFieldsAsWiresharkShowsThem(t *testing.T) {
	mad := madsOf(t, filepath.Join(captures, "rxe-rping.pcap"))[0]
	h, data, _ := ParseHeader(mad)
	r, _, _ := ParseREQ(data)
	src, dst := netip.MustParseAddr("10.77.0.3"), netip.MustParseAddr("10.77.0.2")
	want := REQ{
		LocalCommID: 0x18549923, ServiceID: NewServiceID(PortSpaceTCP, 0x1c06), LocalCAGUID: 0x505400fffe770002,
		LocalQPN: 0x11, ResponderResources: 1, InitiatorDepth: 1, RemoteResponseTimeout: 0x14, StartingPSN: 0x728caa,
		LocalResponseTimeout: 0x14, RetryCount: 7, PKey: 0xffff, PathMTU: ib.MTU1024, RNRRetryCount: 7, MaxCMRetries: 15,
		Primary: Path{
			LocalLID: LIDRoCE, RemoteLID: LIDRoCE, LocalGID: ib.GIDFromAddr(src), RemoteGID: ib.GIDFromAddr(dst),
			FlowLabel: 0x608f6, HopLimit: 0x40, ACKTimeout: 0x11,
		},
		PrivateData: r.PrivateData,
	}
	if r != want || h.TransactionID != 0x823995418 {
		t.Errorf("transaction %#x\ngot  %+v\nwant %+v", h.TransactionID, r, want)
	}
	ip, rest, ok := ParseIPHeader(r.PrivateData[:])
	if !ok || ip != (IPHeader{Port: 0xb510, Src: src, Dst: dst}) || len(rest) != 56 {
		t.Errorf("IP header %+v, %d bytes after it, %v", ip, len(rest), ok)
	}
}

// The output of tshark 4.0.17 for the messages that answer one.
func TestOtherFieldsAsWiresharkShowsThem(t *testing.T) {
	mads := madsOf(t, filepath.Join(captures, "rxe-rping.pcap"))
	_, data, _ := ParseHeader(mads[1])
	rep, _, _ := ParseREP(data)
	if want := (REP{
		LocalCommID: 0x47e3ba64, RemoteCommID: 0x18549923, LocalQPN: 0x11, StartingPSN: 0x0b7440, ResponderResources: 1,
		InitiatorDepth: 1, TargetACKDelay: 0x0f, RNRRetryCount: 7, LocalCAGUID: 0x505400fffe770001,
	}); rep != want {
		t.Errorf("REP %+v", rep)
	}
	mads = madsOf(t, filepath.Join(captures, "rxe-op-reject.pcap"))
	_, data, _ = ParseHeader(mads[1])
	rej, _, _ := ParseREJ(data)
	if rej.LocalCommID != 0x9de3ba64 || rej.RemoteCommID != 0x75549923 || rej.Reason != RejConsumer || rej.Of != OfREQ ||
		string(bytes.TrimRight(rej.PrivateData[:], "\x00")) != "no thanks" {
		t.Errorf("REJ %+v", rej)
	}
	mads = madsOf(t, filepath.Join(captures, "rxe-udaddy.pcap"))
	_, data, _ = ParseHeader(mads[0])
	req, _, _ := ParseSIDRREQ(data)
	ip, _, ok := ParseIPHeader(req.PrivateData[:])
	if req.RequestID != 0x7d549923 || req.PKey != ib.DefaultPKey || req.ServiceID != NewServiceID(PortSpaceUDP, 7174) ||
		!ok || ip.Src != netip.MustParseAddr("10.77.0.3") || ip.Port != 0xc5ef {
		t.Errorf("SIDR_REQ %+v %+v", req, ip)
	}
	_, data, _ = ParseHeader(mads[1])
	reply, _, _ := ParseSIDRREP(data)
	if want := (SIDRREP{RequestID: 0x7d549923, QPN: 0x31, ServiceID: req.ServiceID, QKey: 0x01234567}); reply != want {
		t.Errorf("SIDR_REP %+v", reply)
	}
}
