// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"reflect"
	"testing"

	"verbena/ib"
)

// distinct gives every field of a structure a value of its own, and reports how
// many there are.
func distinct(v reflect.Value, n int) int {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			n = distinct(v.Field(i), n)
		}
		return n
	case reflect.Array:
		for i := range v.Len() {
			n = distinct(v.Index(i), n)
		}
		return n
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetUint(uint64(n%250 + 1))
	}
	return n + 1
}

// through takes attributes to C and back. Its type parameter is C's structure,
// which a test cannot name.
func through[C any](put func(*C, *ib.QPAttr), get func(*C) ib.QPAttr, a ib.QPAttr) ib.QPAttr {
	var c C
	put(&c, &a)
	return get(&c)
}

// Every attribute survives the way to C and back.
func TestQPAttributes(t *testing.T) {
	var a ib.QPAttr
	if n := distinct(reflect.ValueOf(&a).Elem(), 0); n < 70 {
		t.Fatalf("only %d fields", n)
	}
	a.RateBurst, a.RatePacket = 0, 0 // not in ibv_qp_attr: ibv_modify_qp_rate_limit has them
	if got := through(putQPAttr, qpAttr, a); got != a {
		t.Errorf("went as\n%+v\ncame back as\n%+v", a, got)
	}
	if got := through(putQPAttr, qpAttr, ib.QPAttr{}); got != (ib.QPAttr{}) {
		t.Errorf("nothing came back as %+v", got)
	}
}

func TestQPMask(t *testing.T) {
	var all ib.QPAttrMask
	for _, b := range maskBits {
		all |= b.ib
		m, err := qpMask(b.c)
		if err != nil || m != b.ib || cMask(b.ib) != b.c {
			t.Errorf("%#x: %#x, %v", b.c, m, err)
		}
	}
	if m, err := qpMask(cMask(all)); err != nil || m != all || len(maskBits) != 22 {
		t.Errorf("all: %#x, %v", m, err)
	}
	for _, bit := range []uint{21, 24, 26, 31} {
		if _, err := qpMask(-1 << bit); err == nil {
			t.Errorf("bits from %d on are accepted", bit)
		}
	}
}
