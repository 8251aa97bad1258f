// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"regexp"
	"strconv"
	"testing"
)

var someData = ConnData{
	Credits: 384,
	Table:   Window{0x0102030405060708, 0x0a0b0c0d, 2},
	Buffer:  Window{0x1112131415161718, 0x1a1b1c1d, 65536},
}

const someBytes = "0102018000000000" + "01020304050607080a0b0c0d00000002" + "11121314151617181a1b1c1d00010000"

func TestConnData(t *testing.T) {
	b := someData.Append(nil)
	if got := hex.EncodeToString(b); got != someBytes {
		t.Errorf("appended %s, want %s", got, someBytes)
	}
	got, rest, ok := ParseConnData(append(b, 9))
	if !ok || got != someData || len(rest) != 1 {
		t.Errorf("parsed %+v, %x, %v", got, rest, ok)
	}
	for n := range b {
		if _, _, ok := ParseConnData(b[:n]); ok {
			t.Errorf("parsed %d bytes", n)
		}
	}
	b[0] = 2
	if _, _, ok := ParseConnData(b); ok {
		t.Error("parsed another version")
	}
}

func TestWindowHasTheReadersByteOrder(t *testing.T) {
	w := Window{0x0102030405060708, 0x0a0b0c0d, 5}
	for want, order := range map[string]binary.AppendByteOrder{
		"08070605040302010d0c0b0a05000000": binary.LittleEndian,
		"01020304050607080a0b0c0d00000005": binary.BigEndian,
	} {
		if got := hex.EncodeToString(w.Append(nil, order)); got != want {
			t.Errorf("%v: %s, want %s", order, got, want)
		}
	}
}

func TestMessage(t *testing.T) {
	for v, want := range map[uint32]Message{
		0x00000040: {Data, 64}, 0x80000180: {Credit, 384}, 0xe0000002: {Control, Shutdown}, 0x3fffffff: {1, MaxValue},
	} {
		if got := ParseMessage(v); got != want || got.Uint32() != v {
			t.Errorf("%#x: %v, which is %#x", v, got, got.Uint32())
		}
	}
}

// The C library has the same numbers.
func TestNumbersAreThoseOfC(t *testing.T) {
	header, err := os.ReadFile("../../../cabi/rsocket/wire.h")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"RS_CONN_VERSION": version, "RS_CONN_BIG_ENDIAN": bigEndian, "RS_CONN_IOMAP": iomap, "RS_MSG_VALUE_BITS": valueBits,
		"RS_MSG_DATA": int(Data), "RS_MSG_CREDIT": int(Credit), "RS_MSG_IOMAP": int(IOMap), "RS_MSG_CONTROL": int(Control),
		"RS_CONTROL_DISCONNECT": Disconnect, "RS_CONTROL_KEEPALIVE": KeepAlive, "RS_CONTROL_SHUTDOWN": Shutdown,
		"RS_UD_HEADER_IPV4": udSize4, "RS_UD_HEADER_IPV6": udSize6, "RS_UDP_HEADER_IPV4": udpSize4, "RS_UDP_HEADER_IPV6": udpSize6,
		"RS_UDP_TAG": udpTag, "RS_UDP_DATA": int(UDPData), "RS_UDP_CONTROL": int(UDPControl),
	} {
		m := regexp.MustCompile(`(?m)^(?:#define |\t)` + name + `(?: =)? (\w+)`).FindSubmatch(header)
		if m == nil {
			t.Errorf("wire.h does not define %s", name)
			continue
		}
		if got, err := strconv.ParseInt(string(m[1]), 0, 32); err != nil || int(got) != want {
			t.Errorf("%s is %s in C, %d here", name, m[1], want)
		}
	}
}

func FuzzConnData(f *testing.F) {
	f.Add(someData.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, rest, ok := ParseConnData(b)
		if !ok {
			return
		}
		again, _, ok := ParseConnData(d.Append(nil))
		if !ok || again != d || !bytes.HasSuffix(b, rest) {
			t.Errorf("%+v became %+v", d, again)
		}
	})
}
