// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/verbs"
)

// stormer is one pair of ends that lives through TestNTBStorm.
type stormer struct {
	a, b *end
	rnd  *rand.Rand
	mw   *verbs.MW
	canaries
	done int // work requests that went well
}

// canaries is memory of b that a was once allowed to write, and no more.
type canaries struct {
	old   []target
	bytes []byte
}

// target is stormBytes of memory that a key names, or has named.
type target struct {
	key  ib.RKey
	addr uint64
}

const (
	stormBytes = 8192
	canary     = 0xa5
)

// TestNTBStorm has pairs of queue pairs work while the link is reset all the time, and
// their peers destroy, reset and deregister in the middle. All that is posted ends, and
// memory that was taken back is not written.
func TestNTBStorm(t *testing.T) {
	eachNTB(t, func(t *testing.T, kind string) {
		joinLinks(t, kind)
		const pairs = 4
		rounds := 60
		if testing.Short() {
			rounds = 5
		}
		var list []*stormer
		for i := range pairs {
			list = append(list, newStormer(t, uint64(i)))
		}
		awaitPort(t, list[0].a, ib.PortActive)
		awaitPort(t, list[0].b, ib.PortActive)
		var over atomic.Bool
		var all, storm sync.WaitGroup
		for _, s := range list {
			all.Go(func() {
				for r := 0; r < rounds && !t.Failed(); {
					if s.round(r) {
						r++
					}
				}
			})
		}
		storm.Go(func() {
			rnd := rand.New(rand.NewPCG(7, 7))
			for !over.Load() {
				(*core.Context)([]*end{list[0].a, list[0].b}[rnd.IntN(2)].ctx).NTB().Reset()
				for until := time.Now().Add(time.Duration(rnd.IntN(40)) * time.Millisecond); time.Now().Before(until); {
					runtime.Gosched()
				}
			}
		})
		all.Wait()
		over.Store(true)
		storm.Wait()
		sum := 0
		for _, s := range list {
			sum += s.done
		}
		ups := list[0].a.counter("link_ups")
		t.Logf("%d work requests went well; the link came up %d times", sum, ups)
		if sum == 0 || ups < 3 {
			t.Error("there was no storm, or nothing else")
		}
	})
}

func newStormer(t *testing.T, seed uint64) *stormer {
	s := &stormer{a: newEndOn(t, "ntb0", ib.QPTypeRC, stormBytes), b: newEndOn(t, "ntb1", ib.QPTypeRC, stormBytes), rnd: rand.New(rand.NewPCG(seed, 1))}
	b, err := s.b.ctx.AllocBuffer(2 * stormBytes)
	check(t, err)
	check(t, s.b.mr.Dereg())
	s.b.buf, s.bytes = b.Bytes()[:stormBytes], b.Bytes()[stormBytes:]
	s.mw, err = s.b.pd.AllocMW(ib.MWType2)
	check(t, err)
	for i := range s.bytes {
		s.bytes[i] = canary
	}
	return s
}

// join makes new queue pairs and connects them; false if the link went down meanwhile.
func (s *stormer) join() bool {
	for _, p := range [][2]*end{{s.a, s.b}, {s.b, s.a}} {
		me := p[0]
		q, err := me.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: me.cq, RecvCQ: me.cq, SignalAll: true,
			Cap: ib.QPCap{MaxSendWR: 32, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInlineData: 64}})
		check(me.t, err)
		check(me.t, me.qp.Destroy())
		me.qp = q
		toInit(me.t, me)
	}
	for _, p := range [][2]*end{{s.a, s.b}, {s.b, s.a}} {
		me, peer := p[0], p[1]
		gid, err := peer.ctx.QueryGID(1, 0)
		check(me.t, err)
		a := ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, DestQPN: peer.qp.QPN(), MaxDestRdAtomic: 4, MinRNRTimer: 1, AH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: gid}}}
		if me.qp.Modify(&a, ib.QPStateAttr|ib.QPAV|ib.QPPathMTU|ib.QPDestQPN|ib.QPRQPSN|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer) != nil {
			return false
		}
		a = ib.QPAttr{State: ib.QPRTS, Timeout: 12, RetryCnt: 2, RNRRetry: 2, MaxRdAtomic: 4}
		if me.qp.Modify(&a, ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic) != nil {
			return false
		}
	}
	return true
}

// post has an end post a request of any kind, at the other's memory by some key.
func (s *stormer) post(e *end, mr *verbs.MR, to []target, id uint64) bool {
	n := 1 + s.rnd.IntN([]int{8, 64, 4096}[s.rnd.IntN(3)])
	at := to[s.rnd.IntN(len(to))]
	w := verbs.SendWR{ID: id, RemoteAddr: at.addr + uint64(s.rnd.IntN(stormBytes-n+1))&^7, RKey: at.key, SGList: []ib.SGE{mr.SGE(0, n)}, CompareAdd: 1}
	switch s.rnd.IntN(6) {
	case 0, 1:
		w.Opcode = ib.WRRDMAWrite
	case 2:
		w.Opcode = ib.WRRDMARead
	case 3:
		w.Opcode, w.SGList = ib.WRAtomicFetchAndAdd, []ib.SGE{mr.SGE(0, 8)}
		w.RemoteAddr = at.addr
	case 4:
		w.Opcode = ib.WRSend
	case 5:
		w.Opcode, w.ImmData = ib.WRRDMAWriteWithImm, 5
	}
	_, err := e.qp.PostSend(w)
	return err == nil
}

// round works for a while, ends the link in some way, and checks that all requests have ended. It
// returns false if the link went down before it began.
func (s *stormer) round(r int) bool {
	t := s.a.t
	for i := range s.a.buf {
		s.a.buf[i] = byte(r)
	}
	if !s.join() {
		return false
	}
	old, err := s.b.pd.RegMR(s.bytes, allAccess) // goes in the middle
	check(t, err)
	mr, err := s.b.pd.RegMR(s.b.buf, allAccess)
	check(t, err)
	s.b.mr = mr
	to := []target{{mr.RKey(), mr.Addr()}, {old.RKey(), old.Addr()}}
	if len(s.old) > 0 && s.rnd.IntN(8) == 0 {
		to = append(to, s.old[s.rnd.IntN(len(s.old))])
	}
	key := ib.RKey(uint32(s.mw.RKey())&^0xff | s.rnd.Uint32()&0xff)
	bind := verbs.BindWR{MW: s.mw, MR: old, Addr: old.Addr(), Length: stormBytes, Access: allAccess &^ (ib.AccessLocalWrite | ib.AccessMWBind), RKey: key}
	if _, err := s.b.qp.PostSend(verbs.SendWR{ID: 1 << 32, Opcode: ib.WRBindMW, Bind: &bind}); err == nil {
		to = append(to, target{key, old.Addr()})
	}
	posted, settled, base := 0, 0, uint64(r)<<16
	var wcs [16]ib.WC
	poll := func(e *end) {
		n, err := e.cq.Poll(wcs[:])
		check(t, err)
		for _, wc := range wcs[:n] {
			if e == s.a && wc.WRID&^0xffff == base && wc.WRID&0xffff != 0xffff {
				settled++
				if wc.Status == ib.WCSuccess {
					s.done++
				}
			}
		}
	}
	at := s.rnd.IntN(200)
	how := s.rnd.IntN(5)
	ended, gone := false, false
	for i := range 300 {
		if s.post(s.a, s.a.mr, to, base+uint64(posted)) {
			posted++
		}
		for _, p := range [][2]*end{{s.a, s.b}, {s.b, s.a}} {
			p[0].qp.PostRecv(verbs.RecvWR{ID: 1 << 32, SGList: []ib.SGE{p[0].mr.SGE(0, 4096)}}) // full, or gone
		}
		if i%4 == 0 {
			s.post(s.b, mr, []target{{s.a.mr.RKey(), s.a.mr.Addr()}}, 1<<32)
		}
		poll(s.a)
		poll(s.b)
		if i == at {
			switch how {
			case 0:
				check(t, s.b.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr))
			case 1:
				check(t, s.b.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
			case 2:
				check(t, s.b.qp.Destroy())
				q, err := s.b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: s.b.cq, RecvCQ: s.b.cq, Cap: ib.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
				check(t, err)
				s.b.qp = q
			}
			ended = true
		}
		if i == at+20 {
			check(t, s.mw.Dealloc())
			s.old = append(s.old, to[1], target{key, old.Addr()})[max(0, len(s.old)+2-16):]
			check(t, old.Dereg())
			for i := range s.bytes {
				s.bytes[i] = canary
			}
			gone = true
		}
	}
	if !ended || !gone {
		t.Fatal("the round was too short")
	}
	for end := time.Now().Add(20 * time.Second); settled < posted; {
		poll(s.a)
		poll(s.b)
		if time.Now().After(end) {
			t.Fatalf("round %d, end %d: %d of %d work requests have ended; the queue pair is in %v", r, how, settled, posted, s.a.qp.State())
		}
	}
	if n := bytes.Count(s.bytes, []byte{canary}); n != len(s.bytes) {
		t.Fatalf("round %d, end %d: %d bytes were written after their region had gone", r, how, len(s.bytes)-n)
	}
	check(t, mr.Dereg())
	s.mw, err = s.b.pd.AllocMW(ib.MWType2)
	check(t, err)
	return true
}
