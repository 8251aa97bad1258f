// SPDX-License-Identifier: BSD-2-Clause

package xsk_test

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"verbena/internal/sys/xdp"
	"verbena/internal/testkit/netns"
)

// pushTags has frames that leave an interface have the tag of a VLAN beside them, not in them: the
// kernel leaves it to the adapter to put it in. It stays beside them across a virtual pair.
func pushTags(t *testing.T, e *end, vlan int32) (end func()) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		AttachType: ebpf.AttachTCXEgress,
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, int32(binary.NativeEndian.Uint16([]byte{0x81, 0}))),
			asm.Mov.Imm(asm.R3, vlan),
			asm.FnSkbVlanPush.Call(),
			asm.Mov.Imm(asm.R0, -1), // the next program
			asm.Return(),
		}})
	if err != nil {
		t.Skipf("needs BPF programs of traffic control: %v", err)
	}
	t.Cleanup(func() { prog.Close() })
	l, err := link.AttachTCX(link.TCXOptions{Interface: e.iface.Index, Program: prog, Attach: ebpf.AttachTCXEgress})
	if err != nil {
		t.Skipf("needs Linux 6.6: %v", err)
	}
	return func() { l.Close() }
}

// A frame of a VLAN goes to no ring either where its tag is not in the frame any more.
func TestTagsBesideFrames(t *testing.T) {
	a, b, s, ours := receiving(t)
	if a == nil {
		return
	}
	put := rawSocket(t, a)
	want := func(mark byte) {
		t.Helper()
		put(frame(a, b, ours, mark))
		if m := read(t, s.Queues()[0]); m.Data[15] != mark {
			t.Fatalf("the ring gets datagram %d, want %d", m.Data[15], mark)
		}
	}
	want(1)
	end := pushTags(t, a, 7)
	put(frame(a, b, ours, 2))
	end()
	want(3)
}

// An interface whose driver does not tell of tags, or has no XDP, has a program all the same.
func TestProgramOfOtherDrivers(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	bridge, tap := netlink.NewLinkAttrs(), netlink.NewLinkAttrs()
	bridge.Name, tap.Name = "br", "tap"
	for _, l := range []netlink.Link{&netlink.Bridge{LinkAttrs: bridge},
		&netlink.Tuntap{LinkAttrs: tap, Mode: netlink.TUNTAP_MODE_TAP, Queues: 1}} {
		name := l.Attrs().Name
		if err := n.LinkAdd(l); err != nil {
			t.Logf("not tried: this machine makes no interface %s: %v", name, err)
			continue
		}
		n.Up(name)
		is, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := xdp.Attach(is, 1)
		if err != nil {
			skipWithout(t, err)
			t.Fatalf("%s: %v", name, err)
		}
		prog.Close()
	}
}
