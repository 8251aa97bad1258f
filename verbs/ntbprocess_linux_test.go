// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// near is an end of this process, with its knowledge of the end in the other.
type near struct {
	*end
	*far
	offer Offer
}

func (n *near) on(on On) On {
	on.Device = n.ctx.Info().Name
	return on
}

// do posts a work request, whose remote address is relative to one of the peer's memories, and
// returns its completion.
func (n *near) do(t *testing.T, which, off int, wr verbs.SendWR) ib.WC {
	t.Helper()
	wr.Flags |= ib.SendSignaled
	if wr.RKey == 0 {
		wr.RKey = n.offer.Keys[which]
	}
	wr.RemoteAddr = n.offer.Addrs[which] + uint64(off)
	_, err := n.qp.PostSend(wr)
	check(t, err)
	return n.end.poll(1)[0]
}

func (n *near) want(t *testing.T, wc ib.WC, status ib.WCStatus) {
	t.Helper()
	if wc.Status != status {
		t.Fatalf("%v: %v, want %v", wc.Opcode, wc.Status, status)
	}
}

func (n *near) there(t *testing.T, which, off int, want []byte) {
	t.Helper()
	if got := ask[[]byte](t, n.far, "Bytes", n.on(On{Which: which, Off: off, N: len(want)})); !bytes.Equal(got, want) {
		t.Error("other bytes are there")
	}
}

// TestNTBBetweenProcesses has each operation done over links between two processes:
// two links at once, which are two devices of each.
func TestNTBBetweenProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "link")
	host := fmt.Sprintf("127.78.%d.%d:7471", rand.IntN(256), 1+rand.IntN(254)) // of its own
	check(t, verbs.UseLinks("shm:s:"+path+",s:"+host))
	t.Cleanup(func() { check(t, verbs.UseLinks("")) })
	f := startResponder(t, "shm:c:"+path+",c:"+host)
	var all []*near
	for _, device := range []string{"ntb0", "ntb1"} {
		n := &near{end: newEndOn(t, device, ib.QPTypeRC, farBytes), far: f}
		n.offer = ask[Offer](t, f, "Open", n.on(On{}))
		awaitPort(t, n.end, ib.PortActive)
		check(t, bringUp(n.qp, n.offer.QPN[0]))
		ask[struct{}](t, f, "Connect", n.on(On{QPN: n.qp.QPN()}))
		pattern(n.buf, 3)
		all = append(all, n)
	}
	for _, n := range all {
		t.Run(map[string]string{"ntb0": "shm", "ntb1": "tcp"}[n.ctx.Info().Name], func(t *testing.T) { operations(t, n) })
	}
	t.Run("two links at once", func(t *testing.T) {
		for round := range 20 {
			for _, n := range all {
				pattern(n.buf[:1<<19], byte(round))
				_, err := n.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{n.mr.SGE(0, 1<<19)}, RemoteAddr: n.offer.Addrs[1], RKey: n.offer.Keys[1]})
				check(t, err)
			}
			for _, n := range all {
				n.one()
			}
		}
		for _, n := range all {
			n.there(t, 1, 0, n.buf[:1<<19])
		}
	})
	for _, n := range all {
		t.Run("errors on "+n.ctx.Info().Name, func(t *testing.T) { refused(t, n) })
	}
	t.Run("the process dies", func(t *testing.T) { orphaned(t, all) })
}

func operations(t *testing.T, n *near) {
	received := func(t *testing.T, id uint64) ib.WC {
		t.Helper()
		wc := ask[ib.WC](t, n.far, "Poll", n.on(On{}))
		if wc.Status != ib.WCSuccess || wc.WRID != id {
			t.Fatalf("received: %+v", wc)
		}
		return wc
	}
	t.Run("SEND", func(t *testing.T) {
		ask[struct{}](t, n.far, "Recv", n.on(On{ID: 11, N: 100000}))
		n.want(t, n.do(t, 0, 0, verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{n.mr.SGE(0, 90000)}}), ib.WCSuccess)
		if wc := received(t, 11); wc.ByteLen != 90000 || wc.Opcode != ib.WCRecv {
			t.Errorf("%+v", wc)
		}
		n.there(t, 0, 0, n.buf[:90000])
	})
	t.Run("SEND inline", func(t *testing.T) {
		ask[struct{}](t, n.far, "Recv", n.on(On{ID: 12, N: 64}))
		n.want(t, n.do(t, 0, 0, verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, Inline: []byte("inline")}), ib.WCSuccess)
		received(t, 12)
		n.there(t, 0, 0, []byte("inline"))
	})
	t.Run("SEND_WITH_IMM", func(t *testing.T) {
		ask[struct{}](t, n.far, "Recv", n.on(On{ID: 13, N: 64}))
		n.want(t, n.do(t, 0, 0, verbs.SendWR{Opcode: ib.WRSendWithImm, ImmData: 0xabcd1234}), ib.WCSuccess)
		if wc := received(t, 13); wc.Flags&ib.WCWithImm == 0 || wc.ImmData != 0xabcd1234 {
			t.Errorf("%+v", wc)
		}
	})
	t.Run("MW and SEND_WITH_INV", func(t *testing.T) {
		key := ask[ib.RKey](t, n.far, "Bind", n.on(On{Off: 4096, N: 4096}))
		write := func() verbs.SendWR {
			return verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{n.mr.SGE(0, 4096)}, RKey: key}
		}
		n.want(t, n.do(t, 0, 4096, write()), ib.WCSuccess)
		n.there(t, 0, 4096, n.buf[:4096])
		ask[struct{}](t, n.far, "Recv", n.on(On{ID: 14, N: 64}))
		n.want(t, n.do(t, 0, 0, verbs.SendWR{Opcode: ib.WRSendWithInv, InvalidateRKey: key}), ib.WCSuccess)
		if wc := received(t, 14); wc.Flags&ib.WCWithInv == 0 || wc.InvalidatedRKey != key {
			t.Errorf("%+v", wc)
		}
	})
	for which, where := range []string{"memory", "the window"} {
		for _, size := range []int{0, 1, 8, 4096, 65537, farBytes} {
			t.Run(fmt.Sprintf("WRITE and READ of %d in %s", size, where), func(t *testing.T) {
				src := n.buf[:size]
				pattern(src, byte(size+which))
				n.want(t, n.do(t, which, 0, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{n.mr.SGE(0, size)}}), ib.WCSuccess)
				n.there(t, which, 0, src)
				want := bytes.Clone(src)
				clear(src)
				n.want(t, n.do(t, which, 0, verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{n.mr.SGE(0, size)}}), ib.WCSuccess)
				if !bytes.Equal(src, want) {
					t.Error("other bytes came back")
				}
			})
		}
	}
	t.Run("WRITE_WITH_IMM", func(t *testing.T) {
		ask[struct{}](t, n.far, "Recv", n.on(On{ID: 15, N: 64}))
		n.want(t, n.do(t, 1, 100, verbs.SendWR{Opcode: ib.WRRDMAWriteWithImm, ImmData: 99, SGList: []ib.SGE{n.mr.SGE(5, 5000)}}), ib.WCSuccess)
		if wc := received(t, 15); wc.Opcode != ib.WCRecvRDMAWithImm || wc.ImmData != 99 || wc.ByteLen != 5000 {
			t.Errorf("%+v", wc)
		}
		n.there(t, 1, 100, n.buf[5:5005])
	})
	t.Run("atomics", func(t *testing.T) {
		word := func() uint64 { return binary.NativeEndian.Uint64(n.buf) }
		binary.NativeEndian.PutUint64(n.buf, 1000)
		n.want(t, n.do(t, 0, 8192, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{n.mr.SGE(0, 8)}}), ib.WCSuccess)
		n.want(t, n.do(t, 0, 8192, verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, CompareAdd: 7, SGList: []ib.SGE{n.mr.SGE(0, 8)}}), ib.WCSuccess)
		if word() != 1000 {
			t.Errorf("FETCH_AND_ADD brought %d", word())
		}
		n.want(t, n.do(t, 0, 8192, verbs.SendWR{Opcode: ib.WRAtomicCmpAndSwp, CompareAdd: 1007, Swap: 5, SGList: []ib.SGE{n.mr.SGE(0, 8)}}), ib.WCSuccess)
		if word() != 1007 {
			t.Errorf("CMP_AND_SWP brought %d", word())
		}
		n.there(t, 0, 8192, binary.NativeEndian.AppendUint64(nil, 5))
	})
	t.Run("RNR retry", func(t *testing.T) {
		_, err := n.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, Inline: []byte("early")})
		check(t, err)
		for end := time.Now().Add(10 * time.Second); n.counter("rcvd_rnr") == 0; {
			if k, err := n.cq.Poll(make([]ib.WC, 1)); err != nil || k > 0 || time.Now().After(end) {
				t.Fatalf("%d completions before there is a receive, %v", k, err)
			}
		}
		ask[struct{}](t, n.far, "Recv", n.on(On{ID: 16, N: 64}))
		n.one()
		received(t, 16)
		n.there(t, 0, 0, []byte("early"))
	})
	t.Run("SRQ", func(t *testing.T) {
		q, err := n.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: n.cq, RecvCQ: n.cq, Cap: ib.QPCap{MaxSendWR: 1, MaxSendSGE: 1, MaxInlineData: 16}})
		check(t, err)
		check(t, bringUp(q, n.offer.QPN[1]))
		ask[struct{}](t, n.far, "Connect", n.on(On{Which: 1, QPN: q.QPN()}))
		ask[struct{}](t, n.far, "Recv", n.on(On{Which: 1, ID: 17, Off: 64, N: 64}))
		_, err = q.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, Inline: []byte("shared")})
		check(t, err)
		n.one()
		received(t, 17)
		n.there(t, 0, 64, []byte("shared"))
		check(t, q.Destroy())
	})
}

// refused has a request refused: both ends learn why, and both queue pairs end.
func refused(t *testing.T, n *near) {
	n.want(t, n.do(t, 0, 0, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{n.mr.SGE(0, 8)}, RKey: n.offer.Keys[0] ^ 0x100}), ib.WCRemAccessErr)
	for words := ""; words != "local access violation work queue error"; {
		words = ask[string](t, n.far, "Event", n.on(On{}))
		switch words {
		case "communication established", "port active", "local access violation work queue error":
		default:
			t.Fatalf("the responder was told of a %s", words)
		}
	}
	if n.qp.State() != ib.QPErr {
		t.Errorf("the requester's queue pair is in %v", n.qp.State())
	}
}

// orphaned kills the other process. Posted requests are flushed, and the application gets an event
// with the text of ibv_event_type_str.
func orphaned(t *testing.T, all []*near) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	over, end := context.WithCancel(ctx)
	end()
	for _, n := range all {
		check(t, n.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
		check(t, bringUp(n.qp, n.offer.QPN[0])) // its peer has ended: this one is connected, and waits
		_, err := n.qp.PostRecv(verbs.RecvWR{ID: 1})
		check(t, err)
		n.ctx.AsyncEvent(over) // the port is watched from here on
	}
	check(t, all[0].cmd.Process.Kill())
	for i, n := range all {
		port := ib.PortActive // of a shared-memory hub
		want := map[string]bool{"local work queue catastrophic error": true}
		if i == 1 {
			port = ib.PortDown
			want["port error"] = true
		}
		for len(want) > 0 {
			e, err := n.ctx.AsyncEvent(ctx)
			if err != nil {
				t.Fatalf("%v: not told of %v", err, want)
			}
			if port == ib.PortActive && e.Type == ib.EventPortErr {
				t.Error("the port of a shared-memory hub goes down")
			}
			delete(want, e.Type.String())
		}
		n.want(t, n.end.poll(1)[0], ib.WCWRFlushErr)
		awaitPort(t, n.end, port)
	}
}
