// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"verbena/ib"
	wire "verbena/internal/wire/ntb"
	"verbena/verbs"
)

// TestNTBWindowOfAnEarlierProcess: only one process has memory in a window that another process had
// before. A peer that is alive notices at once; one that says nothing is given up as a silent one
// is.
func TestNTBWindowOfAnEarlierProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "window")
	check(t, os.WriteFile(file, nil, 0o600))
	check(t, os.Truncate(file, 64<<20))
	check(t, verbs.UseLinks("map:0:"+file+",map:1:"+file))
	t.Cleanup(func() { check(t, verbs.UseLinks("")) })
	take := func() (c *verbs.Context, took time.Duration) {
		c, err := verbs.Open("ntb0")
		check(t, err)
		from := time.Now()
		_, err = c.AllocBuffer(4096)
		check(t, err)
		return c, time.Since(from)
	}
	a, took := take()
	if took > time.Second {
		t.Errorf("in a file that nobody had: after %v", took)
	}
	b := newEndOn(t, "ntb1", ib.QPTypeRC, 64)
	awaitPort(t, b, ib.PortActive)
	for range 3 {
		was := b.counter("peer_restarted")
		check(t, a.Close())
		a, took = take()
		if b.counter("peer_restarted") == was {
			t.Fatalf("after %v; the peer has not noticed that there is another process", took)
		}
		awaitPort(t, b, ib.PortActive)
	}
	check(t, a.Close())
	check(t, b.ctx.Close())

	// The peer wrote this, and nobody has read it since.
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	_, err = f.WriteAt(binary.LittleEndian.AppendUint32(nil, wire.Magic), wire.OffMagic)
	check(t, err)
	_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, 77), wire.OffSession)
	check(t, err)
	a, took = take()
	if took < 2*time.Second || took > 10*time.Second {
		t.Errorf("with a peer that is silent: after %v", took)
	}
	check(t, a.Close())
}

// TestNTBFileBecomesShorter takes the memory of a link away: the device is lost, with all
// that is on it, and not the process.
func TestNTBFileBecomesShorter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "window")
	check(t, os.WriteFile(file, nil, 0o600))
	check(t, os.Truncate(file, 64<<20))
	check(t, verbs.UseLinks("map:0:"+file+",map:1:"+file))
	t.Cleanup(func() { check(t, verbs.UseLinks("")) })
	a, b := newEndOn(t, "ntb0", ib.QPTypeRC, 1<<16), newEndOn(t, "ntb1", ib.QPTypeRC, 1<<16)
	awaitPort(t, a, ib.PortActive)
	awaitPort(t, b, ib.PortActive)
	connect(t, a, b, ib.MTU4096)
	b.inWindow()
	for _, e := range []*end{a, b} {
		over, stop := context.WithCancel(t.Context())
		stop()
		e.ctx.AsyncEvent(over) // events are watched for from here on
	}
	_, err := b.qp.PostRecv(verbs.RecvWR{ID: 2})
	check(t, err)
	check(t, os.Truncate(file, 0))
	_, err = a.qp.PostSend(verbs.SendWR{ID: 1, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 1<<16)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	check(t, err)
	for _, e := range []*end{a, b} {
		if wc := e.poll(1)[0]; wc.Status == ib.WCSuccess {
			t.Errorf("%+v", wc)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for want := map[ib.EventType]bool{ib.EventDeviceFatal: true, ib.EventQPFatal: true, ib.EventPortErr: true}; len(want) > 0; {
			got, err := e.ctx.AsyncEvent(ctx)
			if err != nil {
				t.Fatalf("%v: was not told of %v", err, want)
			}
			delete(want, got.Type)
		}
		cancel()
		awaitPort(t, e, ib.PortDown)
		if e.qp.State() != ib.QPErr {
			t.Errorf("the queue pair is in %v", e.qp.State())
		}
		buf, err := e.ctx.AllocBuffer(4096) // of the process's memory
		check(t, err)
		buf.Bytes()[0] = 1
	}
}
