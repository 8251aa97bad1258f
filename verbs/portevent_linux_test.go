// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"context"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/testkit/netns"
	"verbena/verbs"
)

// newNetwork is the calling test's own, in which an administrator is at work on
// the loopback interface and on d0. Both are up. It is nil where the test has
// been done elsewhere.
func newNetwork(t *testing.T) *netns.Network {
	t.Helper()
	n := netns.New(t)
	if n != nil {
		n.AddWire("d0", "d1")
		n.Up("lo", "d1", "d0")
	}
	return n
}

func openDevice(t *testing.T, name string) *verbs.Context {
	t.Helper()
	c, err := verbs.Open(name)
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// wantGID compares an entry of the table with an address, "" if it is free.
func wantGID(t *testing.T, c *verbs.Context, index int, addr string) {
	t.Helper()
	var want ib.GID
	if addr != "" {
		want = ib.GIDFromAddr(netip.MustParseAddr(addr))
	}
	got, err := c.QueryGID(1, index)
	check(t, err)
	if got != want {
		t.Errorf("GID %d is %v, not %v", index, got, want)
	}
	table, err := c.GIDTable(1)
	check(t, err)
	listed := ib.GID{}
	for _, e := range table {
		if e.GID.IsZero() {
			t.Errorf("the table lists a free entry: %+v", e)
		}
		if e.Index == index {
			listed = e.GID
		}
	}
	if listed != want {
		t.Errorf("GID %d is listed as %v, not %v", index, listed, want)
	}
}

// TestGIDIndicesStay removes and adds addresses under an application that holds
// indices.
func TestGIDIndicesStay(t *testing.T) {
	n := newNetwork(t)
	if n == nil {
		return
	}
	for _, a := range []string{"198.51.100.1/32", "198.51.100.2/32", "198.51.100.3/32"} {
		n.Add("lo", a)
	}
	n.Remove("lo", "::1/128")
	n.Remove("lo", "127.0.0.1/8")
	c := openDevice(t, "roce_lo")
	for i, a := range []string{"198.51.100.1", "198.51.100.2", "198.51.100.3", ""} {
		wantGID(t, c, i, a)
	}
	n.Remove("lo", "198.51.100.1/32")
	wantGID(t, c, 0, "")
	wantGID(t, c, 1, "198.51.100.2")
	wantGID(t, c, 2, "198.51.100.3")

	// A free GID index is no source, neither of an address vector nor of a connection.
	pd, err := c.AllocPD()
	check(t, err)
	to := ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: ib.GIDFromAddr(netip.MustParseAddr("198.51.100.2"))}}
	_, err = pd.CreateAH(&to)
	wantError(t, err, syscall.EINVAL, "AH.GRH.SGIDIndex")

	n.Add("lo", "198.51.100.9/32") // the kernel lists it last
	wantGID(t, c, 0, "198.51.100.9")
	wantGID(t, c, 2, "198.51.100.3")
	wantGID(t, c, 3, "")
}

// TestUDSendsFromANewAddress adds one while the queue pairs are in use.
func TestUDSendsFromANewAddress(t *testing.T) {
	n := newNetwork(t)
	if n == nil {
		return
	}
	n.Remove("lo", "::1/128")
	n.Add("lo", "198.51.100.2/32")
	a, b := datagrams(t, 8192), datagrams(t, 8192)
	n.Remove("lo", "127.0.0.1/8")
	n.Add("lo", "198.51.100.1/32")
	index, gid := a.gidOf("198.51.100.1")
	if index != 0 {
		t.Fatalf("the new address has index %d, not that of the one that went", index)
	}
	pattern(a.buf, 1)
	b.recv(1, 4096)
	wr := verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 100)}, AH: a.handle(index, gid), RemoteQPN: b.qp.QPN(), RemoteQKey: testQKey}
	wantStatus(t, a.post(wr).Status, ib.WCSuccess)
	if wc := b.one(); wc.ByteLen != 140 || !bytes.Equal(b.buf[32:36], gid[12:]) || !bytes.Equal(b.buf[40:140], a.buf[:100]) {
		t.Errorf("completion %+v, GRH % x", wc, b.buf[:40])
	}
}

// TestPortEvents takes an interface down and up and changes its addresses.
func TestPortEvents(t *testing.T) {
	n := newNetwork(t)
	if n == nil {
		return
	}
	n.Add("d0", "192.0.2.1/24")
	c, lo := openDevice(t, "roce_d0"), openDevice(t, "roce_lo")
	next := func(what string, want ib.EventType) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		e, err := c.AsyncEvent(ctx)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if e.Port != 1 || e.QP != nil || e.CQ != nil || e.SRQ != nil || e.Type != want {
			t.Fatalf("%s: %+v, not %v", what, e, want)
		}
	}
	none := func(c *verbs.Context, what string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if e, err := c.AsyncEvent(ctx); err == nil {
			t.Errorf("%s: %v", what, e.Type)
		}
	}
	none(c, "before anything happens")
	none(lo, "before anything happens")

	n.Add("d0", "192.0.2.2/24")
	next("an address", ib.EventGIDChange)
	n.Down("d0")
	next("down", ib.EventPortErr)
	if p, err := c.QueryPort(1); err != nil || p.State != ib.PortDown {
		t.Errorf("port %+v, %v", p, err)
	}
	n.Up("d0")
	next("up", ib.EventPortActive)
	if caps := c.Query().DeviceCapFlags; caps&ib.CapPortActiveEvent == 0 {
		t.Errorf("the device does not announce the event: %#x", caps)
	}
	n.Remove("d0", "192.0.2.1/24")
	next("an address less", ib.EventGIDChange)
	none(lo, "of another device")
	c.Close()
	if _, err := c.AsyncEvent(t.Context()); err == nil {
		t.Error("a closed context has events")
	}
}
