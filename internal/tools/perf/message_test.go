// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"verbena/ib"
)

func hello() *Hello {
	return &Hello{Protocol: protocol, Op: "write", Metric: "bw", Connection: serviceRC, MaxSize: 65536, QPs: 2, Depth: 128, MTU: 1024}
}

func messages() []*Message {
	return []*Message{
		{Kind: kindHello, Hello: hello()},
		{Kind: kindOffer, Offer: &Offer{GID: GIDText(ib.GID{10: 0xff, 11: 0xff, 12: 127, 15: 1}), MTU: 4096,
			QPs: []QPAddr{{QPN: 0x11, PSN: 0xffffff}, {QPN: 0x12}}, Addr: 1 << 63, RKey: 0xdeadbeef, Len: 131072, ReadDepth: 16}},
		{Kind: kindReady},
		{Kind: kindStep, Size: 8, Iters: 5000},
		{Kind: kindDone, Result: &BWResult{Messages: 5000, Bytes: 40000, TookNS: 1e6, PeakBPS: 4e7}},
		{Kind: kindCount, Result: &BWResult{Messages: 4999}},
		{Kind: kindBye},
		{Kind: kindError, Error: "no GID"},
	}
}

func TestMessagesSurviveTheWire(t *testing.T) {
	for _, m := range messages() {
		line, err := AppendMessage(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Errorf("%q is not one line", line)
		}
		got, err := ParseMessage(line)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s: got %+v, %v", line, got, err)
		}
	}
}

func TestGIDTravelsAsText(t *testing.T) {
	line, _ := AppendMessage(nil, messages()[1])
	if want := `"gid":"00000000000000000000ffff7f000001"`; !strings.Contains(string(line), want) {
		t.Errorf("no %s in %s", want, line)
	}
}

func TestImpossibleMessagesAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		``:                 "not a message",
		`GET / HTTP/1.1`:   "not a message",
		`{"kind":"dance"}`: "unknown message",
		`{"kind":"hello"}`: "without content",
		`{"kind":"offer"}`: "without queue pairs",
		`{"kind":"offer","offer":{"gid":"00","qps":[{}]}}`: "32 hexadecimal",
		`{"kind":"count"}`:                    "without content",
		`{"kind":"step","size":0}`:            "impossible size",
		`{"kind":"step","size":-1}`:           "impossible size",
		`{"kind":"step","size":1,"iters":-1}`: "impossible size",
	} {
		if _, err := ParseMessage([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", line, err, want)
		}
	}
}

func TestHelloIsBounded(t *testing.T) {
	for want, spoil := range map[string]func(*Hello){
		"same version":    func(h *Hello) { h.Protocol = "verbena perf 0" },
		"message size":    func(h *Hello) { h.MaxSize = maxSize + 1 },
		"queue pairs":     func(h *Hello) { h.QPs = 0 },
		"depth":           func(h *Hello) { h.Depth = maxDepth + 1 },
		"inline":          func(h *Hello) { h.Inline = -1 },
		"path MTU 1000":   func(h *Hello) { h.MTU = 1000 },
		"duration":        func(h *Hello) { h.DurationNS = -1 },
		"MiB of memory":   func(h *Hello) { h.MaxSize, h.QPs = maxSize, maxQPs },
		"0 queue pairs":   func(h *Hello) { h.QPs = 0 },
		"connection":      func(h *Hello) { h.Connection = "DC" },
		"no RDMA WRITE":   func(h *Hello) { h.Connection = serviceUD },
		"-1 queue pairs ": func(h *Hello) { h.QPs = -1 },
	} {
		h := hello()
		spoil(h)
		if err := h.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if err := hello().check(); err != nil {
		t.Error(err)
	}
}

func FuzzParseMessage(f *testing.F) {
	for _, m := range messages() {
		line, _ := AppendMessage(nil, m)
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := ParseMessage(line)
		if err != nil {
			return
		}
		again, err := AppendMessage(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		if m2, err := ParseMessage(again); err != nil || !reflect.DeepEqual(m, m2) {
			t.Errorf("%q reads as %+v, written and read again %+v, %v", line, m, m2, err)
		}
	})
}

// The longest offer, of as many queue pairs as a process has, fits a line.
func TestLongestOfferFitsALine(t *testing.T) {
	qps := make([]QPAddr, maxQPs)
	for i := range qps {
		qps[i] = QPAddr{QPN: 1<<24 - 1, PSN: 1<<24 - 1}
	}
	line, err := AppendMessage(nil, &Message{Kind: kindOffer, Offer: &Offer{MTU: 4096, QPs: qps,
		Addr: 1<<64 - 1, RKey: 1<<32 - 1, Len: 1<<64 - 1, Port: 1<<16 - 1, ReadDepth: readDepth}})
	if err != nil || len(line) > maxLineBytes {
		t.Errorf("it has %d bytes, %d are taken: %v", len(line), maxLineBytes, err)
	}
}
