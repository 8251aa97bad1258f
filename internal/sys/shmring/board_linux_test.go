// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newShown returns a ring between two mappings of one memory, as two processes have
// it.
func newShown(t *testing.T) (tx *Producer, rx *Consumer, end func()) {
	t.Helper()
	ours, fd, err := newMemory()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := mapMemory(fd)
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endMapping(theirs) })
	return newProducer(theirs), newConsumer(ours), func() { endMapping(ours) }
}

// hasArrivals reads as a reader of struct vb_board does: it follows an address that it has looked
// up.
func (b *Board) hasArrivals() bool {
	m := b.shared
	for i := range m.entries.Load() {
		data, next := m.at[i].data.Load(), m.at[i].next.Load()
		if data != 0 && at(data+uintptr(next&m.mask)) != 0 {
			return true
		}
	}
	return false
}

// at reads the word at an address that is no Go memory.
func at(address uintptr) uint64 {
	return **(**uint64)(unsafe.Pointer(&address))
}

func publish(t *testing.T, tx *Producer, n int) {
	t.Helper()
	b := tx.Reserve()
	if b == nil {
		t.Fatal("the ring is full")
	}
	tx.Commit(n, &Message{Segment: n})
}

// The board shows an arrival from when an entry is published to when it is read, all
// around the ring.
func TestBoardShowsRings(t *testing.T) {
	b := NewBoard()
	defer b.End()
	tx, rx, end := newShown(t)
	defer end()
	publish(t, tx, 100) // before it is shown
	if !b.Show(rx) {
		t.Fatal("no room on an empty board")
	}
	var m Message
	for i := range 3 * dataBytes / (MaxBytes / 2) {
		if !b.hasArrivals() {
			t.Fatalf("entry %d is not shown", i)
		}
		if ok, err := rx.Next(&m); !ok || err != nil {
			t.Fatalf("entry %d: %v, %v", i, ok, err)
		}
		rx.Advance()
		if b.hasArrivals() {
			t.Fatalf("entry %d is shown after it was read", i)
		}
		publish(t, tx, MaxBytes/2+i)
	}
	if b.Hide(rx); b.hasArrivals() {
		t.Error("what is hidden is shown")
	}
	if ok, err := rx.Next(&m); !ok || err != nil {
		t.Errorf("hidden, the ring has lost its place: %v, %v", ok, err)
	}
}

// A thread that has looked up an address may look there when the ring has ended, and when there is
// another.
func TestShownMemoryStays(t *testing.T) {
	b := NewBoard()
	defer b.End()
	tx, rx, end := newShown(t)
	b.Show(rx)
	publish(t, tx, 8)
	address := b.shared.at[0].data.Load()
	if at(address) == 0 {
		t.Fatal("nothing is where the first entry was published")
	}
	b.Hide(rx)
	end()
	if v := at(address); v != 0 {
		t.Errorf("%#x is where a ring was", v)
	}
	tx, rx, end = newShown(t)
	defer end()
	b.Show(rx)
	publish(t, tx, 8)
	if !b.hasArrivals() {
		t.Error("a later ring is not shown")
	}
	used := 0
	for range 100 {
		_, rx, end := newShown(t)
		if addressOf(rx.data) == address {
			used++
		}
		end()
	}
	if used == 0 && addressOf(rx.data) != address {
		t.Error("the addresses of rings that ended are not used again")
	}
}

// A process with many peers shows the ring of each: 17 processes of one host had some that were not
// shown, and each poll of theirs called Go. Polls look at no more entries than are in use.
func TestBoardGrowsAndShrinks(t *testing.T) {
	b := NewBoard()
	defer b.End()
	const many = 40
	var shown []*Consumer
	for i := range many {
		tx, rx, end := newShown(t)
		defer end()
		if !b.Show(rx) {
			t.Fatalf("no room for ring %d", i)
		}
		if shown = append(shown, rx); i == many-1 {
			publish(t, tx, 8)
		}
	}
	if !b.hasArrivals() {
		t.Error("the last ring is not shown")
	}
	for _, c := range []struct{ hide, left int }{{3, many}, {many - 1, many - 1}, {many - 3, many - 1}, {many - 2, many - 3}} {
		if b.Hide(shown[c.hide]); b.shared.entries.Load() != uint32(c.left) {
			t.Errorf("%d entries without ring %d, want %d", b.shared.entries.Load(), c.hide, c.left)
		}
	}
	tx, rx, end := newShown(t)
	defer end()
	publish(t, tx, 8)
	if !b.Show(rx) || !b.hasArrivals() || b.shared.entries.Load() != many-3 {
		t.Error("the place of one that was hidden is not given out again")
	}
}

// The board ends with its memory.
func TestBoardIsBounded(t *testing.T) {
	b := NewBoard()
	defer b.End()
	b.taken = make([]*Consumer, boardEntries) // each taken
	_, rx, end := newShown(t)
	defer end()
	for i := range b.taken {
		b.taken[i] = rx
	}
	if b.Show(rx) {
		t.Fatal("a ring too many is shown")
	}
}

// A board that was taken down reads as nothing, and the next one is as new.
func TestBoardEnds(t *testing.T) {
	b := NewBoard()
	m := b.shared
	b.SetSuffices(true)
	m.polls.Store(5)
	if !b.Suffices() || b.Polls() != 5 {
		t.Error("what was said is not there")
	}
	b.End()
	if m.suffices.Load() != 0 || m.entries.Load() != 0 {
		t.Error("a board that was taken down still says something")
	}
	next := NewBoard()
	defer next.End()
	if next.Suffices() || next.Polls() != 0 || next.shared.mask != dataBytes-1 {
		t.Error("a new board is not empty")
	}
}

// A thread that is about to sleep arms a ring while another thread takes it off the board. Run with
// -race.
func TestArmBesideHide(t *testing.T) {
	b := NewBoard()
	defer b.End()
	_, rx, end := newShown(t)
	defer end()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			rx.Arm()
		}
	}()
	for range 1000 {
		if !b.Show(rx) {
			t.Error("no room")
		}
		b.Hide(rx)
	}
	<-done
}

// A thread that is about to sleep arms the rings that it has found. One may have ended since.
func TestArmAfterTheEnd(t *testing.T) {
	tx, rx, end := newShown(t)
	publish(t, tx, 8)
	if rx.Arm() {
		t.Error("nothing waits in the ring")
	}
	end()
	if !rx.Arm() {
		t.Error("something waits in a ring that has ended")
	}
}
