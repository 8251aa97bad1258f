// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
)

const (
	// recordBytes is the size of a record: two halves, for the last snapshot and the next one.
	recordBytes = 32 << 10
	halfBytes   = recordBytes / 2
	// headBytes is the size of a half's head: sequence (8), length (4), CRC32 of the text (4).
	headBytes = 16
	// maxPairs is more than the queue pairs of a device that fit.
	maxPairs = 64
)

var errRecord = errors.New("stats: the record has no whole snapshot")

// record is the memory of a file that outlives the process: its last snapshot, without the objects
// that are large. A process that is killed while it writes a half leaves the other.
type record struct {
	mem      []byte // of recordBytes
	sequence uint64
}

// write puts a snapshot into the older half. Queue pairs that do not fit are left out.
func (r *record) write(s Snapshot) error {
	text, err := json.Marshal(brief(s, maxPairs))
	for n := maxPairs; len(text) > halfBytes-headBytes && n > 0; {
		n /= 2
		text, err = json.Marshal(brief(s, n))
	}
	if err != nil || len(text) > halfBytes-headBytes {
		return errRecord
	}
	r.sequence++
	half := r.mem[r.sequence%2*halfBytes:][:halfBytes]
	binary.LittleEndian.PutUint32(half[8:], 0) // no text until all is there
	copy(half[headBytes:], text)
	binary.LittleEndian.PutUint64(half, r.sequence)
	binary.LittleEndian.PutUint32(half[12:], crc32.ChecksumIEEE(text))
	binary.LittleEndian.PutUint32(half[8:], uint32(len(text)))
	return nil
}

// brief returns the part of a snapshot that a record holds: of each device the counters, and the
// first queue pairs up to a limit.
func brief(s Snapshot, limit int) Snapshot {
	devices := make([]Device, len(s.Devices))
	for i, d := range s.Devices {
		devices[i] = Device{Name: d.Name, Kind: d.Kind, NetDev: d.NetDev, Counters: d.Counters,
			QueuePairs: d.QueuePairs[:min(limit, len(d.QueuePairs))]}
	}
	s.Identifiers, s.Devices = nil, devices
	return s
}

// parseRecord returns the newest whole snapshot of a record.
func parseRecord(b []byte) (s Snapshot, err error) {
	err = errRecord
	newest := uint64(0)
	for at := 0; at+halfBytes <= len(b) && at < recordBytes; at += halfBytes {
		half := b[at:][:halfBytes]
		sequence := binary.LittleEndian.Uint64(half)
		n := binary.LittleEndian.Uint32(half[8:])
		if n == 0 || n > halfBytes-headBytes || sequence < newest {
			continue
		}
		text := half[headBytes:][:n]
		var one Snapshot
		if crc32.ChecksumIEEE(text) == binary.LittleEndian.Uint32(half[12:]) &&
			json.Unmarshal(text, &one) == nil {
			s, newest, err = one, sequence, nil
		}
	}
	s.printable()
	return s, err
}
