// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"iter"
	"testing"

	"verbena/ib"
	"verbena/internal/sys/portshare"
)

// TestConnTableRotates wants every number of the slot once before any comes
// again, and an error when all are taken.
func TestConnTableRotates(t *testing.T) {
	const numbers = 700
	tab := connTable{base: 5 << qpnBits, limit: firstQPN + numbers}
	tab.parts[0].next = partQPNs - 3
	seen := map[ib.QPN]*Conn{}
	for range numbers {
		q, ok := tab.reserve(0)
		if !ok || seen[q] != nil || q>>qpnBits != 5 || q&(slotQPNs-1) < firstQPN {
			t.Fatalf("number %v, %v", q, ok)
		}
		if tab.find(q) != nil {
			t.Fatal("found before it was published")
		}
		c := &Conn{qpn: q}
		tab.publish(c)
		if tab.find(q) != c {
			t.Fatal("not found")
		}
		if tab.find(q^1<<qpnBits) != nil {
			t.Fatal("found under the number of another slot")
		}
		seen[q] = c
	}
	if _, ok := tab.reserve(0); ok {
		t.Fatal("a number although all are taken")
	}
	for q, c := range seen {
		tab.remove(c)
		if tab.find(q) != nil {
			t.Fatal("found after it was removed")
		}
	}
	q, _ := tab.reserve(0)
	tab.remove(&Conn{qpn: q})
	for range numbers - 1 {
		if next, _ := tab.reserve(0); next == q {
			t.Fatalf("%v came again before the others", q)
		}
	}
	n := 0
	tab.each(func(*Conn) { n++ })
	if n != 0 {
		t.Errorf("%d connections, all of which are only reserved", n)
	}
}

// TestLastSlotLacksMulticast: the last number of the last slot is the one that
// every multicast packet carries.
func TestLastSlotLacksMulticast(t *testing.T) {
	tab := connTable{base: (1<<24>>qpnBits - 1) << qpnBits, limit: slotQPNs - 1}
	for i := range uint32(partQPNs) {
		if tab.order.number(Parts-1, i) == slotQPNs-1 {
			tab.parts[Parts-1].next = i // whose turn it would be
		}
	}
	if q, _ := tab.reserve(Parts - 1); q == ib.QPMulticast || q>>qpnBits != 1<<24>>qpnBits-1 {
		t.Errorf("given out: %v", q)
	}
}

// TestNumbersAreNotGuessed wants numbers that do not follow from one another: of two
// in a row no difference comes twice in a hundred but by chance, and a process with
// another key has another order.
func TestNumbersAreNotGuessed(t *testing.T) {
	tab, other := connTable{limit: slotQPNs}, connTable{limit: slotQPNs, order: qpnOrder{key: 1}}
	differences, same := map[ib.QPN]int{}, 0
	last, _ := tab.reserve(0)
	for range 100 {
		q, _ := tab.reserve(0)
		differences[(q-last)&(partQPNs-1)]++
		last = q
		if o, _ := other.reserve(0); o == q {
			same++
		}
	}
	for d, n := range differences {
		if n > 2 {
			t.Errorf("the next number is %d further on, %d times in 100", d, n)
		}
	}
	if same > 2 {
		t.Errorf("two processes have %d of 100 numbers in common, in order", same)
	}
}

// TestNumbersPassBeforeTheyAreGivenOut: the kernel learns each number before anybody can send to
// it, once in a while. It also learns which numbers are nobody's any more.
func TestNumbersPassBeforeTheyAreGivenOut(t *testing.T) {
	var set portshare.Numbers
	told := 0
	tab := connTable{base: 5 << qpnBits, limit: slotQPNs, pass: func(numbers iter.Seq[ib.QPN]) {
		set, told = portshare.Numbers{}, told+1
		for q := range numbers {
			set.Add(q)
		}
	}}
	tab.parts[0].used = true
	tab.tell()
	const numbers = 10 * passAhead
	var all []*Conn
	for range numbers {
		q, _ := tab.reserve(0)
		c := &Conn{qpn: q}
		tab.publish(c)
		all = append(all, c)
		for _, c := range all {
			if !set.Has(c.qpn) {
				t.Fatalf("%v does not pass, with %d numbers given out", c.qpn, len(all))
			}
		}
	}
	if told > numbers/passAhead+1 {
		t.Errorf("told %d times of %d numbers", told, numbers)
	}
	for _, c := range all[:numbers-1] {
		tab.remove(c)
		if last := all[numbers-1]; !set.Has(last.qpn) {
			t.Fatalf("%v does not pass any more", last.qpn)
		}
	}
	pass := 0
	for i := range ib.QPN(slotQPNs) {
		if set.Has(i) {
			pass++
		}
	}
	if share := float64(pass) / slotQPNs; share > 0.08 {
		t.Errorf("%.0f %% of all numbers pass for one queue pair", 100*share)
	}
}

// TestNumbersOfAPart: each part of a slot gives out three quarters of its numbers, and no others.
// Then those of another part come, until that has as many. The last quarters come at the end.
func TestNumbersOfAPart(t *testing.T) {
	tab := connTable{limit: slotQPNs, order: qpnOrder{key: 7}}
	seen := map[ib.QPN]bool{}
	take := func(part, n, want int) {
		t.Helper()
		for range n {
			q, ok := tab.reserve(part)
			if !ok || seen[q] || int(q>>placeBits) != want {
				t.Fatalf("%v, %v for part %d", q, ok, part)
			}
			seen[q] = true
		}
	}
	take(2, 10, 2)
	for part := range Parts {
		n := partQPNs - restQPNs
		switch part {
		case 0:
			n -= firstQPN
		case 2:
			n -= 10
		}
		take(part, n-10, part)
	}
	take(3, 10, 3)
	take(3, 10, 0)
	take(3, 10, 1)
	take(3, 10, 2)
	take(2, restQPNs-10, 2)
	take(1, restQPNs, 1)
	take(1, 10, 2)
	take(1, restQPNs, 3)
	take(1, restQPNs, 0)
	if q, ok := tab.reserve(1); ok {
		t.Errorf("%v although all are taken", q)
	}
}

// TestFilterIsSetSeldom: a new number costs a filter once in a while, however many there are. No
// more so if the numbers of one part are used up, or if queue pairs come and go.
func TestFilterIsSetSeldom(t *testing.T) {
	const size = slotQPNs - firstQPN
	for _, parts := range [...]int{1, Parts} {
		var set portshare.Numbers
		told := 0
		tab := connTable{limit: slotQPNs, pass: func(numbers iter.Seq[ib.QPN]) {
			set, told = portshare.Numbers{}, told+1
			for q := range numbers {
				set.Add(q)
			}
		}}
		var all []ib.QPN
		reserve := func(part int) {
			q, ok := tab.reserve(part)
			if !ok || !set.Has(q) {
				t.Fatalf("%v, %v, with %d numbers given out: it does not pass", q, ok, len(all))
			}
			all = append(all, q)
		}
		for i := range parts {
			reserve(i)
		}
		for len(all) < size {
			const numbers = 100
			before := told
			for range min(numbers, size-len(all)) {
				reserve(0)
			}
			if n, most := told-before, Parts*numbers/passAhead+Parts; n > most {
				t.Fatalf("%d parts, %d numbers: told %d times of the last %d, want at most %d",
					parts, len(all), n, numbers, most)
			}
		}
		before := told
		const rounds = 2 * passAhead
		for i := range rounds {
			tab.remove(&Conn{qpn: all[i]})
			reserve(i)
		}
		if n, most := told-before, (Parts+1)*rounds/passAhead+Parts; n > most {
			t.Errorf("%d parts: told %d times of %d numbers that came and went, want at most %d",
				parts, n, rounds, most)
		}
	}
}

// TestNumbersOfAllPartsPass is TestNumbersPassBeforeTheyAreGivenOut with Lanes of all parts.
func TestNumbersOfAllPartsPass(t *testing.T) {
	var set portshare.Numbers
	told := 0
	tab := connTable{limit: slotQPNs, pass: func(numbers iter.Seq[ib.QPN]) {
		set, told = portshare.Numbers{}, told+1
		for q := range numbers {
			set.Add(q)
		}
	}}
	tab.tell()
	const numbers = 10 * passAhead
	for i := range numbers {
		if q, _ := tab.reserve(i % Parts); !set.Has(q) {
			t.Fatalf("%v does not pass, the %dth", q, i)
		}
	}
	if told > Parts*(numbers/passAhead+1)+1 {
		t.Errorf("told %d times of %d numbers", told, numbers)
	}
}
