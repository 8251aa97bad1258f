// SPDX-License-Identifier: BSD-2-Clause

package pcapread

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"verbena/internal/wire/pcap"
)

const (
	byteOrderMagic = 0x1a2b3c4d
	blockHead      = 12 // type, length, and a section's byte-order magic or a block's first field
	// maxEntry bounds the bytes of a journal's entry that are kept: those of a call fit.
	maxEntry = 1 << 15
)

// errCut is not io.ErrUnexpectedEOF itself, which gopacket takes for the end between two blocks.
var errCut = fmt.Errorf("a block of systemd's journal: %w", io.ErrUnexpectedEOF)

// journal takes the entries of systemd's journal out of a pcapng file, which gopacket would pass
// over. A Read ends with its block, so that an entry is taken between the packets around it.
type journal struct {
	in    *bufio.Reader
	entry func(b []byte)

	left  int64 // bytes of the current block that are not read yet
	rest  bool  // the file's rest is read as it is: a block's length is nonsense
	order binary.ByteOrder
}

func (j *journal) Read(b []byte) (n int, err error) {
	for j.left == 0 && !j.rest {
		if err := j.next(); err != nil {
			return 0, err
		}
	}
	if !j.rest {
		b = b[:min(int64(len(b)), j.left)]
	}
	n, err = j.in.Read(b)
	j.left -= int64(n)
	return n, err
}

// next begins the next block. It takes an entry whole.
func (j *journal) next() error {
	head, err := j.in.Peek(blockHead)
	if len(head) < blockHead {
		j.rest = true // gopacket finds the end, or what is missing
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
	if binary.LittleEndian.Uint32(head) == pcapngMagic {
		j.order = binary.LittleEndian
		if binary.BigEndian.Uint32(head[8:]) == byteOrderMagic {
			j.order = binary.BigEndian
		}
	}
	if j.order == nil { // no section has begun
		j.rest = true
		return nil
	}
	n := int64(j.order.Uint32(head[4:]))
	switch {
	case n < blockHead || n%4 != 0:
		j.rest = true
	case j.order.Uint32(head) == pcap.BlockJournal:
		return j.take(n)
	default:
		j.left = n
	}
	return nil
}

// take takes an entry, in a block of n bytes.
func (j *journal) take(n int64) error {
	kept := min(n-blockHead, maxEntry)
	b := make([]byte, 8+kept)
	if _, err := io.ReadFull(j.in, b); err != nil {
		return errCut
	}
	if _, err := io.CopyN(io.Discard, j.in, n-blockHead-kept); err != nil {
		return errCut
	}
	var tail [4]byte
	if _, err := io.ReadFull(j.in, tail[:]); err != nil {
		return errCut
	}
	if again := j.order.Uint32(tail[:]); int64(again) != n {
		return fmt.Errorf("a journal's block of %d bytes ends with the length %d", n, again)
	}
	j.entry(b[8:])
	return nil
}
