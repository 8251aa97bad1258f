// SPDX-License-Identifier: BSD-2-Clause

package umad

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"syscall"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// get returns a Get of an attribute of performance management.
func get(a cm.Attribute, port uint8) []byte {
	h := cm.Header{BaseVersion: 1, Class: classPerf, ClassVersion: 1, Method: methodGet, TransactionID: 0x1122334455667788, Attribute: a}
	mad := append(h.Append(nil), make([]byte, MADBytes-cm.HeaderSize)...)
	mad[perfDataAt+1] = port
	return mad
}

var counts = Counters{XmitBytes: 4 * 0x01020304, RcvBytes: 4*7 + 3, XmitPackets: 5, RcvPackets: 6, RcvErrors: 8}

func countsOfPort() Counters { return counts }

// The data of answers, from their field table in IBTA vol. 1, 16.1.3.
func TestAnswersHaveTheirFields(t *testing.T) {
	for name, c := range map[string]struct {
		attr cm.Attribute
		want string // the beginning of the data
	}{
		// BaseVersion, ClassVersion, CapabilityMask, CapabilityMask2 and RespTimeValue
		"ClassPortInfo": {attrClassPortInfo, "01 01 0400 00000012"},
		// PortSelect, CounterSelect, SymbolErrorCounter, LinkErrorRecovery, LinkDowned,
		// PortRcvErrors; six that are 0; PortXmitData, PortRcvData, PortXmitPkts, PortRcvPkts,
		// PortXmitWait
		"PortCounters": {attrPortCounters, "0001 0000 0000 00 00 0008 0000 0000 0000 00 00 0000 0000 0000 01020304 00000007 00000005 00000006 00000000"},
		// PortSelect, CounterSelect, CounterSelect2; then numbers of 64 bits
		"PortCountersExtended": {attrPortCountersExtended, "0001 0000 00000000 0000000001020304 0000000000000007 0000000000000005 0000000000000006 0000000000000000"},
	} {
		request := get(c.attr, 1)
		reply, ok := Answer(request, countsOfPort)
		if !ok {
			t.Errorf("%s has no answer", name)
			continue
		}
		wantHead := bytes.Clone(request[:cm.HeaderSize])
		wantHead[3] = 0x81
		if !bytes.Equal(reply[:cm.HeaderSize], wantHead) {
			t.Errorf("%s: header %x, want %x", name, reply[:cm.HeaderSize], wantHead)
		}
		want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := reply[perfDataAt : perfDataAt+len(want)]; !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
		if rest := bytes.Trim(reply[perfDataAt+len(want):], "\x00"); len(rest) > 0 {
			t.Errorf("%s: %x behind its fields", name, rest)
		}
	}
}

func TestCountersStayAtTheirLargest(t *testing.T) {
	all := func() Counters {
		return Counters{XmitBytes: math.MaxUint64, RcvBytes: math.MaxUint64, XmitPackets: math.MaxUint64, RcvPackets: math.MaxUint64, RcvErrors: math.MaxUint64}
	}
	reply, _ := Answer(get(attrPortCounters, 1), all)
	data := reply[perfDataAt:]
	if got := binary.BigEndian.Uint16(data[8:]); got != math.MaxUint16 {
		t.Errorf("PortRcvErrors is %#x", got)
	}
	for at := 24; at < 40; at += 4 {
		if got := binary.BigEndian.Uint32(data[at:]); got != math.MaxUint32 {
			t.Errorf("at %d: %#x", at, got)
		}
	}
}

func TestWhatThePortDoesNotAnswer(t *testing.T) {
	change := func(at int, to byte) []byte {
		mad := get(attrPortCounters, 1)
		mad[at] = to
		return mad
	}
	for name, mad := range map[string][]byte{
		"short": get(attrPortCounters, 1)[:MADBytes-1], "empty": nil, "base version 2": change(0, 2),
		"subnet management": change(1, 0x01), "CM": change(1, 0x07), "an answer": change(3, 0x81),
	} {
		if reply, ok := Answer(mad, countsOfPort); ok {
			t.Errorf("%s is answered: %x", name, reply)
		}
	}
	for name, c := range map[string]struct {
		mad    []byte
		status uint16
	}{
		"class version 2": {change(2, 2), 0x04}, "a trap": {change(3, 0x05), 0x08}, "Set": {change(3, 0x02), 0x0c},
		"another attribute": {change(17, 0x15), 0x0c}, "port 2": {get(attrPortCounters, 2), 0x1c}, "all ports": {get(attrPortCountersExtended, 255), 0x1c},
	} {
		reply, ok := Answer(c.mad, func() Counters { t.Errorf("%s: counts were read", name); return Counters{} })
		if got := binary.BigEndian.Uint16(reply[4:]); !ok || got != c.status {
			t.Errorf("%s: %v, status %#x, want %#x", name, ok, got, c.status)
		}
		if data := bytes.Trim(reply[cm.HeaderSize:], "\x00"); len(data) > 0 {
			t.Errorf("%s: data %x", name, data)
		}
	}
}

// message returns one that an application writes, with the header of the length.
func message(headerBytes int, agent uint32, timeoutMS, retries uint32, mad []byte) []byte {
	b := make([]byte, headerBytes)
	for i, v := range []uint32{agent, 0, timeoutMS, retries} {
		binary.NativeEndian.PutUint32(b[4*i:], v)
	}
	return append(b, mad...)
}

func agent(t *testing.T, f *File) uint32 {
	t.Helper()
	a, err := f.Register(1)
	if err != 0 {
		t.Fatal(err)
	}
	return a
}

// Applications that do not ask for P_Key indices have a shorter header.
func TestFileAnswersBothHeaders(t *testing.T) {
	f := NewFile(countsOfPort)
	agent(t, f)
	a := agent(t, f)
	for _, head := range []int{oldHeaderBytes, newHeaderBytes} {
		b := f.Handle(0, message(head, a, 1000, 3, get(attrPortCounters, 1)))
		h, _, mad, ok := parseMessage(b)
		want, _ := Answer(get(attrPortCounters, 1), countsOfPort)
		if !ok || h.agent != a || h.status != 0 || int(h.length) != head+MADBytes || !bytes.Equal(mad, want[:]) {
			t.Errorf("header of %d bytes: %+v %x", head, h, mad)
		}
		if _, waits := f.NextExpiry(); waits {
			t.Error("an answered request waits")
		}
	}
}

func TestRequestsTimeOut(t *testing.T) {
	f := NewFile(countsOfPort)
	a := agent(t, f)
	smp := get(0x11, 0)
	smp[1] = 0x81 // by a directed route
	elsewhere := message(newHeaderBytes, a, 50, 0, get(attrPortCounters, 1))
	elsewhere[29] = 4 // LID
	if b := f.Handle(0, message(newHeaderBytes, a, 100, 2, smp)); b != nil {
		t.Errorf("answered: %x", b)
	}
	if b := f.Handle(0, elsewhere); b != nil {
		t.Errorf("answered: %x", b)
	}
	for _, until := range []monotime.Time{50e6, 300e6} {
		if at, waits := f.NextExpiry(); !waits || at != until {
			t.Fatalf("the next time-out is at %d (%v), want %d", at, waits, until)
		}
		if b := f.Expire(until - 1); b != nil {
			t.Errorf("too early: %x", b)
		}
		b := f.Expire(until)
		if len(b) != newHeaderBytes+cm.HeaderSize || binary.NativeEndian.Uint32(b[4:]) != uint32(syscall.ETIMEDOUT) ||
			binary.BigEndian.Uint64(b[newHeaderBytes+8:]) != 0x1122334455667788 {
			t.Errorf("message %x", b)
		}
	}
	if _, waits := f.NextExpiry(); waits {
		t.Error("a request waits still")
	}
	// Beyond the bound the oldest gives way.
	for i := range maxPending + 1 {
		b := f.Handle(0, message(newHeaderBytes, a, uint32(1000+i), 0, smp))
		if (b != nil) != (i == maxPending) {
			t.Fatalf("request %d: %x", i, b)
		}
	}
}

func TestAgents(t *testing.T) {
	f := NewFile(countsOfPort)
	for _, qpn := range []uint32{2, 256, math.MaxUint32} {
		if _, err := f.Register(qpn); err != syscall.EINVAL {
			t.Errorf("queue pair %d: %v", qpn, err)
		}
	}
	for i := range uint32(maxAgents) {
		if a := agent(t, f); a != i {
			t.Fatalf("agent %d is %d", i, a)
		}
	}
	if _, err := f.Register(1); err != syscall.ENOMEM {
		t.Errorf("one too many: %v", err)
	}
	if err := f.Unregister(7); err != 0 {
		t.Error(err)
	}
	for _, gone := range []uint32{7, maxAgents, math.MaxUint32} {
		if err := f.Unregister(gone); err != syscall.EINVAL {
			t.Errorf("agent %d: %v", gone, err)
		}
		b := f.Handle(0, message(newHeaderBytes, gone, 1000, 0, get(attrPortCounters, 1)))
		if len(b) < newHeaderBytes || binary.NativeEndian.Uint32(b[4:]) != uint32(syscall.EINVAL) {
			t.Errorf("agent %d: %x", gone, b)
		}
	}
	if a := agent(t, f); a != 7 {
		t.Errorf("the free number is 7, not %d", a)
	}
}

// Whatever an application writes, messages have a header and at most a MAD, and requests are
// bounded.
func FuzzFile(f *testing.F) {
	f.Add(message(newHeaderBytes, 0, 1000, 3, get(attrPortCounters, 1)))
	f.Add(message(oldHeaderBytes, 0, 1, 0, get(attrClassPortInfo, 0)))
	f.Add(message(newHeaderBytes, 1, math.MaxUint32, math.MaxUint32, get(0x11, 1)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		file := NewFile(countsOfPort)
		if _, err := file.Register(1); err != 0 {
			t.Fatal(err)
		}
		before := bytes.Clone(b)
		for range maxPending + 2 {
			if m := file.Handle(0, b); m != nil && (len(m) > MessageBytes || len(m) < oldHeaderBytes+cm.HeaderSize) {
				t.Fatalf("message of %d bytes", len(m))
			}
		}
		if !bytes.Equal(b, before) {
			t.Fatal("the message was changed")
		}
		if len(file.pending) > maxPending {
			t.Fatalf("%d requests wait", len(file.pending))
		}
		if at, waits := file.NextExpiry(); waits && (at < 0 || at > maxWaitMS*1e6 || file.Expire(at) == nil) {
			t.Fatalf("time-out at %d", at)
		}
	})
}
