// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
)

// A will file is a sequence of records, each valid or free:
//
//	0       4       12     28     44    46    48             48+length
//	+-------+-------+------+------+-----+-----+---------------+ ┄ 512
//	| CRC32 | id    |local | dst  |port |len  | datagram      | zeros
//	+-------+-------+------+------+-----+-----+---------------+ ┄
//
// The CRC covers the bytes after it. A record that a dying process wrote half, or cleared, does not
// match and is no will. Integers are big-endian, addresses 16 bytes, IPv4 mapped.
const (
	willRecordBytes = 512
	willHeaderBytes = 48
	maxWills        = 1 << 16 // of one member: 32 MiB of file
)

func (w *Will) check() error {
	switch {
	case len(w.Datagram) == 0 || len(w.Datagram) > MaxWillBytes:
		return fmt.Errorf("portshare: will of %d bytes: must be 1 to %d", len(w.Datagram),
			MaxWillBytes)
	case !w.Local.IsValid() || !w.Dst.IsValid():
		return errors.New("portshare: will without local or destination address")
	}
	return nil
}

// encodeWill fills a record.
func encodeWill(rec *[willRecordBytes]byte, id uint64, w Will) {
	clear(rec[:])
	binary.BigEndian.PutUint64(rec[4:], id)
	local, dst := w.Local.As16(), w.Dst.Addr().As16()
	copy(rec[12:], local[:])
	copy(rec[28:], dst[:])
	binary.BigEndian.PutUint16(rec[44:], w.Dst.Port())
	binary.BigEndian.PutUint16(rec[46:], uint16(len(w.Datagram)))
	copy(rec[willHeaderBytes:], w.Datagram)
	binary.BigEndian.PutUint32(rec[:], crc32.ChecksumIEEE(rec[4:]))
}

// parseWill reads a record; ok is false if it is free or damaged. The will
// keeps its own copy of the datagram.
func parseWill(rec []byte) (id uint64, w Will, ok bool) {
	if len(rec) < willRecordBytes ||
		binary.BigEndian.Uint32(rec) != crc32.ChecksumIEEE(rec[4:willRecordBytes]) {
		return 0, Will{}, false
	}
	n := int(binary.BigEndian.Uint16(rec[46:]))
	if n == 0 || n > MaxWillBytes {
		return 0, Will{}, false
	}
	w.Local = netip.AddrFrom16([16]byte(rec[12:28])).Unmap()
	w.Dst = netip.AddrPortFrom(netip.AddrFrom16([16]byte(rec[28:44])).Unmap(),
		binary.BigEndian.Uint16(rec[44:]))
	w.Datagram = append([]byte(nil), rec[willHeaderBytes:willHeaderBytes+n]...)
	return binary.BigEndian.Uint64(rec[4:]), w, true
}
