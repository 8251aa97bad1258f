// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// Sizes of a stream: each message is of two packets, and some are always under way.
const (
	streamDepth = 8
	streamSlot  = 2048
	streamLast  = 1 << 63 // marks the number of the last message
)

// stream is one end of two streams of numbered messages, one each way.
type stream struct {
	e               *end
	sent, done, got uint64
	ended, heard    bool          // the last message was sent; that of the peer has come
	came            atomic.Uint64 // got, for the goroutine of the test
}

// run sends messages until stop, and returns when both streams have ended.
func (s *stream) run(stop *atomic.Bool) error {
	for i := range uint64(streamDepth) {
		if err := s.receive(i); err != nil {
			return err
		}
	}
	var wcs [4]ib.WC
	for end := time.Now().Add(60 * time.Second); !s.heard || !s.ended || s.done < s.sent; {
		if !s.ended && s.sent-s.done < streamDepth {
			if err := s.send(stop.Load()); err != nil {
				return err
			}
		}
		n, err := s.e.cq.Poll(wcs[:])
		if err != nil {
			return err
		}
		for _, wc := range wcs[:n] {
			if err := s.complete(wc); err != nil {
				return err
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d messages sent, %d acknowledged, %d received", s.sent, s.done, s.got)
		}
	}
	return nil
}

func (s *stream) receive(id uint64) error {
	at := int(id%streamDepth) * streamSlot
	_, err := s.e.qp.PostRecv(verbs.RecvWR{ID: id, SGList: []ib.SGE{s.e.mr.SGE(at, streamSlot)}})
	return err
}

func (s *stream) send(last bool) error {
	at := int(streamDepth+s.sent%streamDepth) * streamSlot
	number := s.sent
	if last {
		number |= streamLast
	}
	slot := s.e.buf[at : at+streamSlot]
	binary.BigEndian.PutUint64(slot, number)
	binary.BigEndian.PutUint64(slot[streamSlot-8:], number)
	s.sent, s.ended = s.sent+1, last
	_, err := s.e.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled,
		SGList: []ib.SGE{s.e.mr.SGE(at, streamSlot)}})
	return err
}

// complete takes a completion: each message comes once, whole, in its turn.
func (s *stream) complete(wc ib.WC) error {
	if wc.Status != ib.WCSuccess {
		return fmt.Errorf("after %d messages: %+v", s.got, wc)
	}
	if wc.Opcode == ib.WCSend {
		s.done++
		return nil
	}
	at := int(wc.WRID%streamDepth) * streamSlot
	slot := s.e.buf[at : at+streamSlot]
	first := binary.BigEndian.Uint64(slot)
	if first&^streamLast != s.got || binary.BigEndian.Uint64(slot[streamSlot-8:]) != first {
		return fmt.Errorf("message %#x came, want %d", first, s.got)
	}
	s.got, s.heard = s.got+1, first&streamLast != 0
	s.came.Store(s.got)
	return s.receive(wc.WRID + streamDepth)
}

// Two ends change paths again and again, each in its turn, while both stream messages to each
// other. None is lost, doubled or out of order.
func TestPathMigrationUnderTraffic(t *testing.T) {
	const size = 2 * streamDepth * streamSlot
	a, b := newEnd(t, ib.QPTypeRC, size), newEnd(t, ib.QPTypeRC, size)
	index, gid := secondGID(t, a.ctx)
	first, err := a.ctx.QueryGID(1, 0)
	check(t, err)
	connect(t, a, b, ib.MTU1024)
	var stop atomic.Bool
	results := make(chan error, 2)
	streams := []*stream{{e: a}, {e: b}}
	for _, s := range streams {
		go func() { results <- s.run(&stop) }()
	}
	defer func() {
		stop.Store(true)
		for range streams {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		for _, s := range streams {
			if s.got < 100 {
				t.Errorf("only %d messages: too few to be under way at each change", s.got)
			}
		}
	}()
	for round := range 12 {
		to := ib.GRH{DGID: gid, SGIDIndex: index}
		if round%2 != 0 {
			to = ib.GRH{DGID: first}
		}
		alternate := ib.QPAttr{AltPortNum: 1, AltTimeout: 14, PathMigState: ib.MigRearm,
			AltAH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: to}}
		ends := []*end{a, b}
		for _, e := range ends {
			check(t, e.qp.Modify(&alternate, ib.QPAltPath|ib.QPPathMigState))
		}
		for _, e := range ends {
			e.wantMigration(ib.MigArmed)
		}
		check(t, ends[round/2%2].qp.Modify(&ib.QPAttr{PathMigState: ib.MigMigrated}, ib.QPPathMigState))
		for _, e := range ends {
			e.wantMigration(ib.MigMigrated)
			if got, _ := e.qp.Query(); got.AH.GRH.DGID != to.DGID {
				t.Errorf("round %d: the path is to %v, want %v", round, got.AH.GRH.DGID, to.DGID)
			}
		}
		end := time.Now().Add(10 * time.Second)
		for _, s := range streams { // messages come by the new path, too
			for want := s.came.Load() + 10; s.came.Load() < want; runtime.Gosched() {
				if time.Now().After(end) {
					t.Fatalf("round %d: no messages come", round)
				}
			}
		}
	}
}
