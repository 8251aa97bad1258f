// SPDX-License-Identifier: BSD-2-Clause

package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"verbena/ib"
	"verbena/internal/sys/portshare"
)

// Where a datagram has its number, and the slot in it. Spec: IBTA 9.2, BTH bytes 4–7.
const (
	wordAt = 4
	// maxAddrs bounds the addresses of an interface that processes use.
	maxAddrs = 1024
	// maxPorts bounds the other ports of an interface that processes use.
	maxPorts = 1 << 16
)

// kernels are the numbers whose datagrams go to the keeper's sockets.
var kernels = []uint32{uint32(ib.QP0), uint32(ib.QP1), uint32(ib.QPMulticast)}

// Program is attached to an interface. Its methods may be called concurrently.
type Program struct {
	queues int
	addrs  *ebpf.Map
	ports  *ebpf.Map
	socks  *ebpf.Map
	prog   *ebpf.Program
	link   link.Link
}

// Attach loads the program and attaches it to the interface, whose driver runs it, else the kernel.
//
// Errors: no CAP_BPF and CAP_NET_ADMIN, another program that is attached, a kernel without XDP.
func Attach(iface *net.Interface, queues int) (portshare.Steering, error) {
	p, err := attach(iface, queues)
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("xdp: %w", err)
	}
	return p, nil
}

func attach(iface *net.Interface, queues int) (p *Program, err error) {
	p = &Program{queues: queues}
	if len(iface.HardwareAddr) != 6 {
		return p, errors.New("not an Ethernet interface")
	}
	if p.addrs, err = ebpf.NewMap(&ebpf.MapSpec{Name: "verbena_addrs", Type: ebpf.Hash, KeySize: 16,
		ValueSize: 4, MaxEntries: maxAddrs}); err != nil {
		return p, fmt.Errorf("map of addresses: %w", err)
	}
	if p.ports, err = ebpf.NewMap(&ebpf.MapSpec{Name: "verbena_ports", Type: ebpf.Hash,
		KeySize: uint32(len(portKey{})), ValueSize: 4, MaxEntries: maxPorts,
		Flags: noPreallocation}); err != nil {
		return p, fmt.Errorf("map of ports: %w", err)
	}
	if p.socks, err = ebpf.NewMap(&ebpf.MapSpec{Name: "verbena_socks", Type: ebpf.XSKMap,
		KeySize: 4, ValueSize: 4, MaxEntries: uint32(portshare.Slots * queues)}); err != nil {
		return p, fmt.Errorf("map of sockets: %w", err)
	}
	// Where the driver tells of tags that it has taken out of frames the program asks it.
	if ask := askForTag(); ask != nil && p.load(iface, ask, true) == nil {
		return p, nil
	}
	return p, p.load(iface, nil, false)
}

// load loads the program with instructions that ask for a tag, and attaches it.
func (p *Program) load(iface *net.Interface, ask asm.Instructions, bound bool) (err error) {
	spec := &ebpf.ProgramSpec{Name: "verbena_steer", Type: ebpf.XDP, License: "Dual BSD/GPL",
		Flags: xdpHasFrags, Instructions: p.instructions([6]byte(iface.HardwareAddr), ask)}
	if bound {
		spec.Flags |= xdpDeviceBound
		spec.Ifindex = uint32(iface.Index)
	}
	prog, err := ebpf.NewProgram(spec)
	if err != nil {
		return fmt.Errorf("load the program: %w", err)
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: iface.Index})
	if err != nil {
		prog.Close()
		return err
	}
	p.prog, p.link = prog, l
	return nil
}

// noPreallocation (BPF_F_NO_PREALLOC) has an empty map take no memory.
const noPreallocation = 1

// xdpHasFrags (BPF_F_XDP_HAS_FRAGS) lets packets of several pages come.
const xdpHasFrags = 1 << 5

// Close detaches the program. Datagrams go to the kernel's sockets from then on.
func (p *Program) Close() {
	if p.link != nil {
		p.link.Close()
	}
	if p.prog != nil {
		p.prog.Close()
	}
	for _, m := range []*ebpf.Map{p.addrs, p.ports, p.socks} {
		if m != nil {
			m.Close()
		}
	}
}

// Add has datagrams to an address go to the sockets.
func (p *Program) Add(a netip.Addr) error {
	return p.addrs.Put(a.As16(), uint32(1))
}

// Remove ends Add.
func (p *Program) Remove(a netip.Addr) { p.addrs.Delete(a.As16()) }

// portKey is an address and a port, as the program has them on its stack.
type portKey [20]byte

func keyOf(a netip.AddrPort) (k portKey) {
	addr := a.Addr().As16()
	copy(k[:], addr[:])
	binary.NativeEndian.PutUint32(k[16:], uint32(network(a.Port())))
	return k
}

// AddPort has datagrams to another port than portshare.Port go to the sockets of a slot.
func (p *Program) AddPort(a netip.AddrPort, slot int) error {
	return p.ports.Put(keyOf(a), uint32(slot))
}

// RemovePort ends AddPort.
func (p *Program) RemovePort(a netip.AddrPort) { p.ports.Delete(keyOf(a)) }

// Give has the datagrams of a slot go to sockets, one for each queue.
func (p *Program) Give(slot int, sockets []int) error {
	for q, fd := range sockets {
		if err := p.socks.Put(uint32(slot*p.queues+q), uint32(fd)); err != nil {
			p.Take(slot)
			return fmt.Errorf("xdp: socket of slot %d: %w", slot, err)
		}
	}
	return nil
}

// Take ends Give.
func (p *Program) Take(slot int) {
	for q := range p.queues {
		p.socks.Delete(uint32(slot*p.queues + q))
	}
}

// Offsets in a frame.
const (
	etherType = 12
	ip        = 14
	udpOf4    = ip + 20
	udpOf6    = ip + 40
	udpBytes  = 8
)

// Members of struct xdp_md.
const (
	mdData    = 0
	mdDataEnd = 4
	mdQueue   = 16
)

// instructions returns the program. ask passes frames that had a tag.
//
//	R6 context, R7 frame, R8 its end; the stack has a portKey (IPv4 mapped to IPv6) at -24
func (p *Program) instructions(mac [6]byte, ask asm.Instructions) asm.Instructions {
	pass := func(r asm.Register, op asm.JumpOp, v uint32) asm.Instruction {
		return op.Imm32(r, int32(v), "pass")
	}
	load := func(at int, size asm.Size) asm.Instruction {
		return asm.LoadMem(asm.R1, asm.R7, int16(at), size)
	}
	reach := func(n int) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.Add.Imm(asm.R1, int32(n)),
			asm.JGT.Reg(asm.R1, asm.R8, "pass"),
		}
	}
	const word = asm.R9
	prog := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, mdData, asm.Word),
		asm.LoadMem(asm.R8, asm.R6, mdDataEnd, asm.Word),
	}
	prog = append(prog, reach(udpOf4+udpBytes+wordAt+4)...)
	prog = append(prog,
		load(0, asm.Word),
		pass(asm.R1, asm.JNE, binary.NativeEndian.Uint32(mac[:])),
		load(4, asm.Half),
		pass(asm.R1, asm.JNE, uint32(binary.NativeEndian.Uint16(mac[4:]))),
		load(etherType, asm.Half),
		asm.JEq.Imm(asm.R1, int32(network(0x86dd)), "v6"),
		pass(asm.R1, asm.JNE, uint32(network(0x0800))),

		load(ip, asm.Byte),
		pass(asm.R1, asm.JNE, 0x45),
		load(ip+6, asm.Half),
		asm.And.Imm(asm.R1, int32(network(0x3fff))), // a fragment's offset and flag
		pass(asm.R1, asm.JNE, 0),
		load(ip+9, asm.Byte),
		pass(asm.R1, asm.JNE, 17),
		load(udpOf4+2, asm.Half),
		asm.StoreMem(asm.RFP, portAt, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, addrAt, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, int32(binary.NativeEndian.Uint32([]byte{0, 0, 0xff, 0xff}))),
		asm.StoreMem(asm.RFP, addrAt+8, asm.R1, asm.Word),
		load(ip+16, asm.Word),
		asm.StoreMem(asm.RFP, addrAt+12, asm.R1, asm.Word),
		asm.LoadMem(word, asm.R7, int16(udpOf4+udpBytes+wordAt), asm.Word),
		asm.Ja.Label("address"),

		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("v6"),
	)
	prog = append(prog,
		asm.Add.Imm(asm.R1, int32(udpOf6+udpBytes+wordAt+4)),
		asm.JGT.Reg(asm.R1, asm.R8, "pass"),
		load(ip+6, asm.Byte),
		pass(asm.R1, asm.JNE, 17),
		load(udpOf6+2, asm.Half),
		asm.StoreMem(asm.RFP, portAt, asm.R1, asm.Word),
	)
	for i := 0; i < 16; i += 4 {
		prog = append(prog, load(ip+24+i, asm.Word),
			asm.StoreMem(asm.RFP, int16(addrAt+i), asm.R1, asm.Word))
	}
	prog = append(prog,
		asm.LoadMem(word, asm.R7, int16(udpOf6+udpBytes+wordAt), asm.Word),

		asm.LoadMem(asm.R1, asm.RFP, portAt, asm.Word).WithSymbol("address"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, addrAt),
		asm.JNE.Imm(asm.R1, int32(network(portshare.Port)), "port"),
		asm.LoadMapPtr(asm.R1, p.addrs.FD()),
		asm.FnMapLookupElem.Call(),
		// Of all 64 bits: a process without CAP_PERFMON may not compare half a pointer.
		asm.JEq.Imm(asm.R0, 0, "pass"),

		asm.HostTo(asm.BE, word, asm.Word),
		asm.And.Imm(word, 0xffffff),
	)
	for _, n := range kernels {
		prog = append(prog, pass(word, asm.JEq, n))
	}
	// The key is slot * queues + queue.
	prog = append(prog,
		asm.RSh.Imm(word, portshare.SlotShift),
		asm.Ja.Label("slot"),

		asm.LoadMapPtr(asm.R1, p.ports.FD()).WithSymbol("port"),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(word, asm.R0, 0, asm.Word),

		asm.And.Imm(word, portshare.Slots-1).WithSymbol("slot"),
		asm.Mul.Imm(word, int32(p.queues)),
	)
	prog = append(prog, ask...)
	return append(prog,
		asm.LoadMem(asm.R2, asm.R6, mdQueue, asm.Word),
		pass(asm.R2, asm.JGE, uint32(p.queues)),
		asm.Add.Reg(asm.R2, word),
		asm.LoadMapPtr(asm.R1, p.socks.FD()),
		asm.Mov.Imm(asm.R3, xdpPass), // the result where the map has no socket
		asm.FnRedirectMap.Call(),
		asm.Return(),

		asm.Mov.Imm(asm.R0, xdpPass).WithSymbol("pass"),
		asm.Return(),
	)
}

// Offsets from the top of the stack, of a portKey.
const (
	addrAt = -24
	portAt = addrAt + 16
)

const xdpPass = 2

// network returns a value as a load of the frame's bytes sees it.
func network(v uint16) uint16 {
	if nativeIsBig {
		return v
	}
	return bits.ReverseBytes16(v)
}

var nativeIsBig = binary.NativeEndian.Uint16([]byte{1, 0}) != 1
