// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func TestInfoIsThatOfRping(t *testing.T) {
	i := Info{Addr: 0x0000557c0aa11000, RKey: 0x04d2, Size: 64}
	want, _ := hex.DecodeString("0000557c0aa11000" + "000004d2" + "00000040")
	if b := i.Append(nil); !bytes.Equal(b, want) {
		t.Errorf("% x", b)
	}
	if got, ok := ParseInfo(want); !ok || got != i {
		t.Errorf("%+v, %v", got, ok)
	}
	for n := range want {
		if _, ok := ParseInfo(want[:n]); ok {
			t.Errorf("%d bytes were taken", n)
		}
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add(make([]byte, InfoSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if i, ok := ParseInfo(b); ok && !bytes.Equal(i.Append(nil), b) {
			t.Errorf("% x: %+v", b, i)
		}
	})
}

func TestPatternIsThatOfRping(t *testing.T) {
	b := make([]byte, 64)
	for n, want := range map[int]string{ // as rping of rdma-core 44 prints them
		0: `rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_` + "`" + `abcdefghijklmnopqr`,
		1: `rdma-ping-1: BCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_` + "`" + `abcdefghijklmnopqrs`,
	} {
		fillPing(b, n)
		if got := string(text(b)); got != want {
			t.Errorf("ping %d: %q", n, got)
		}
	}
	fillPing(b, 57) // starts with the last character and wraps
	if got := string(text(b)[len("rdma-ping-57: "):][:2]); got != "zA" {
		t.Errorf("ping 57 begins %q", got)
	}
	fillPing(b, 58)
	if got := string(text(b)[len("rdma-ping-58: "):][:2]); got != "AB" {
		t.Errorf("ping 58 begins %q", got)
	}
	if got := text([]byte("no end")); string(got) != "no end" {
		t.Errorf("%q", got)
	}
}

func TestShortestSizeHoldsEveryHead(t *testing.T) {
	b := make([]byte, minSize)
	fillPing(b, 1<<31-1)
	if got := string(text(b)); !strings.HasPrefix(got, "rdma-ping-2147483647: ") || len(got) != minSize-1 {
		t.Errorf("%q", got)
	}
}
