// SPDX-License-Identifier: BSD-2-Clause

package shmring

import "encoding/binary"

// Identity identifies a process to the others of this host.
type Identity struct {
	Slot           int // that it owns: see package share
	NetDev, NetIno uint64
}

// hello is the first message of both sides of a connection. The dialling side sends it with the
// descriptor of its ring's memory, the other with that of its eventfd.
//
//	magic (8) │ version (4) │ ring bytes (4) │ slot (8) │ device (8) │ inode (8)
type hello struct {
	bytes uint32
	who   Identity
}

const (
	helloMagic   = "verbring"
	helloVersion = 4
	helloBytes   = 40
)

func (h hello) append(b []byte) []byte {
	b = append(b, helloMagic...)
	b = binary.LittleEndian.AppendUint32(b, helloVersion)
	b = binary.LittleEndian.AppendUint32(b, h.bytes)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.who.Slot))
	b = binary.LittleEndian.AppendUint64(b, h.who.NetDev)
	return binary.LittleEndian.AppendUint64(b, h.who.NetIno)
}

// parseHello reads a hello of this version; any other is refused, and its sender
// uses sockets.
func parseHello(b []byte) (h hello, ok bool) {
	if len(b) != helloBytes || string(b[:8]) != helloMagic ||
		binary.LittleEndian.Uint32(b[8:]) != helloVersion {
		return hello{}, false
	}
	h.bytes = binary.LittleEndian.Uint32(b[12:])
	h.who.Slot = int(binary.LittleEndian.Uint64(b[16:]))
	h.who.NetDev = binary.LittleEndian.Uint64(b[24:])
	h.who.NetIno = binary.LittleEndian.Uint64(b[32:])
	return h, h.bytes == totalBytes
}
