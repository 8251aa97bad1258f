// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// secondGID returns an entry of the GID table beside that of index 0: of another address.
func secondGID(t *testing.T, c *verbs.Context) (index uint8, gid ib.GID) {
	t.Helper()
	first, err := c.QueryGID(1, 0)
	check(t, err)
	for i := 1; i < 16; i++ {
		if gid, err := c.QueryGID(1, i); err == nil && !gid.IsZero() && gid != first {
			return uint8(i), gid
		}
	}
	t.Skip("the loopback interface has one address: IPv6 is off")
	return 0, ib.GID{}
}

// wantMigration waits for a state of path migration.
func (e *end) wantMigration(want ib.MigState) {
	e.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		a, _ := e.qp.Query()
		if a.PathMigState == want {
			return
		}
		if time.Now().After(end) {
			e.t.Fatalf("state %v of path migration, want %v", a.PathMigState, want)
		}
	}
}

// wantNoMigration wants a modification refused for its state of path migration.
func (e *end) wantNoMigration(why string, a ib.QPAttr, mask ib.QPAttrMask) {
	e.t.Helper()
	err := e.qp.Modify(&a, mask)
	var refused *verbs.Error
	if !errors.As(err, &refused) || refused.Arg != "PathMigState" || refused.Err != syscall.EINVAL {
		e.t.Errorf("%s: %v", why, err)
	}
}

// message sends a message of several packets.
func message(from, to *end, mark byte) {
	t := from.t
	t.Helper()
	want := bytes.Repeat([]byte{mark}, 3000)
	copy(from.buf, want)
	_, err := to.qp.PostRecv(verbs.RecvWR{ID: 1, SGList: []ib.SGE{to.mr.SGE(0, 4096)}})
	check(t, err)
	wantStatus(t, from.post(verbs.SendWR{ID: 2, Opcode: ib.WRSend, SGList: []ib.SGE{from.mr.SGE(0, 3000)}}).Status, ib.WCSuccess)
	wantStatus(t, to.poll(1)[0].Status, ib.WCSuccess)
	if !bytes.Equal(to.buf[:3000], want) {
		t.Error("another message came")
	}
}

// One end changes to the alternate path, and the other one follows with the first packet that comes
// by it. Both are notified, and messages go on.
func TestPathMigration(t *testing.T) {
	for _, typ := range []ib.QPType{ib.QPTypeRC, ib.QPTypeUC} {
		t.Run(typ.String(), func(t *testing.T) {
			a, b := newEnd(t, typ, 4096), newEnd(t, typ, 4096)
			index, gid := secondGID(t, a.ctx)
			if a.ctx.Query().DeviceCapFlags&ib.CapAutoPathMig == 0 {
				t.Error("the device does not say that it can")
			}
			connect(t, a, b, ib.MTU1024)
			alternate := ib.QPAttr{AltPortNum: 1, AltTimeout: 15, PathMigState: ib.MigRearm,
				AltAH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: gid, SGIDIndex: index}}}
			for _, e := range []*end{a, b} {
				e.wantNoMigration("no path is loaded", ib.QPAttr{PathMigState: ib.MigRearm}, ib.QPPathMigState)
				check(t, e.qp.Modify(&alternate, ib.QPAltPath|ib.QPPathMigState))
				now := alternate
				now.PathMigState = ib.MigMigrated
				e.wantNoMigration("the peer is not armed", now, ib.QPPathMigState)
				e.wantNoMigration("nor with a path", now, ib.QPAltPath|ib.QPPathMigState)
				e.wantMigration(ib.MigRearm)
				over, stop := context.WithCancel(t.Context())
				stop()
				e.ctx.AsyncEvent(over) // events are watched for from here on
			}
			message(a, b, 1) // UC needs a message each way: nothing is acknowledged
			message(b, a, 2)
			message(a, b, 3)
			a.wantMigration(ib.MigArmed)
			b.wantMigration(ib.MigArmed)
			check(t, a.qp.Modify(&ib.QPAttr{PathMigState: ib.MigMigrated}, ib.QPPathMigState))
			message(a, b, 4)
			message(b, a, 5)
			for _, e := range []*end{a, b} {
				e.wantMigration(ib.MigMigrated)
				if got, _ := e.qp.Query(); got.AH != alternate.AltAH || got.AltAH.IsGlobal {
					t.Errorf("%+v", got)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				event, err := e.ctx.AsyncEvent(ctx)
				for err == nil && event.Type == ib.EventCommEst {
					event, err = e.ctx.AsyncEvent(ctx)
				}
				cancel()
				if err != nil || event.Type != ib.EventPathMig || event.QP != e.qp {
					t.Errorf("%+v, %v", event, err)
				}
			}
			// And back, by a path that is loaded anew.
			first, err := a.ctx.QueryGID(1, 0)
			check(t, err)
			alternate.AltAH.GRH = ib.GRH{DGID: first}
			for _, e := range []*end{a, b} {
				check(t, e.qp.Modify(&alternate, ib.QPAltPath|ib.QPPathMigState))
			}
			message(a, b, 6)
			message(b, a, 7)
			message(a, b, 8)
			b.wantMigration(ib.MigArmed)
			check(t, b.qp.Modify(&ib.QPAttr{PathMigState: ib.MigMigrated}, ib.QPPathMigState))
			message(b, a, 9)
			message(a, b, 10)
			a.wantMigration(ib.MigMigrated)
		})
	}
}

// The halves of XRC migrate as the ends of RC do: the sending half changes the path of its
// requests, and the receiving half follows with its answers.
func TestPathMigrationOfXRC(t *testing.T) {
	b := newStation(t, 4096, nil)
	a, _ := b.initiator(4096)
	index, gid := secondGID(t, a.ctx)
	message := func(id uint64) {
		t.Helper()
		pattern(a.buf, byte(id))
		b.post(id, 0, 4096)
		wr := verbs.SendWR{Opcode: ib.WRSend, RemoteSRQN: b.srq.Num(), SGList: []ib.SGE{a.mr.SGE(0, 3000)}}
		wantStatus(t, a.post(wr).Status, ib.WCSuccess)
		wantStatus(t, b.poll(1)[0].Status, ib.WCSuccess)
		if !bytes.Equal(b.buf[:3000], a.buf[:3000]) {
			t.Errorf("another message than number %d came", id)
		}
	}
	message(1)
	alternate := ib.QPAttr{AltPortNum: 1, AltTimeout: 15, PathMigState: ib.MigRearm,
		AltAH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: gid, SGIDIndex: index}}}
	for _, e := range []*end{a, b.end} {
		check(t, e.qp.Modify(&alternate, ib.QPAltPath|ib.QPPathMigState))
	}
	message(2)
	message(3)
	a.wantMigration(ib.MigArmed)
	b.wantMigration(ib.MigArmed)
	check(t, a.qp.Modify(&ib.QPAttr{PathMigState: ib.MigMigrated}, ib.QPPathMigState))
	message(4)
	for _, e := range []*end{a, b.end} {
		e.wantMigration(ib.MigMigrated)
		if got, _ := e.qp.Query(); got.AH != alternate.AltAH {
			t.Errorf("path %+v, want %+v", got.AH, alternate.AltAH)
		}
	}
	message(5)
}
