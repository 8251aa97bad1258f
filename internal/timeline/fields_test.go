// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
)

// Fields returns the header fields of the packet that came as number serial, from 0.
func (d *Details) Fields(serial uint32) []Value {
	if int(serial/chunkRows) >= len(d.Chunks) {
		return nil
	}
	all, err := io.ReadAll(flate.NewReader(bytes.NewReader(d.Chunks[serial/chunkRows])))
	if err != nil {
		return nil
	}
	for range serial % chunkRows {
		n, k := binary.Uvarint(all)
		if k <= 0 || n > uint64(len(all)-k) {
			return nil
		}
		all = all[k+int(n):]
	}
	n, k := binary.Uvarint(all)
	if k <= 0 || n > uint64(len(all)-k) {
		return nil
	}
	return parseFields(all[k : k+int(n)])
}

// A Value is a field of a packet as text.
type Value struct{ Layer, Name, Text string }

// parseFields takes a list apart.
func parseFields(b []byte) (list []Value) {
	for len(b) > 0 && FieldID(b[0]) != fieldEnd && FieldID(b[0]) < numFields {
		f := FieldTable[b[0]]
		v, n := binary.Uvarint(b[1:])
		if n <= 0 {
			return list
		}
		b = b[1+n:]
		value := Value{Layer: f.Layer, Name: f.Name}
		switch f.Form[0] {
		case 's':
			if v > uint64(len(b)) {
				return list
			}
			value.Text, b = string(b[:v]), b[v:]
		case 'x':
			value.Text = fmt.Sprintf("0x%0"+f.Form[1:]+"x", v)
		case 'b':
			value.Text = "yes"
		default:
			value.Text = fmt.Sprint(v)
		}
		list = append(list, value)
	}
	return list
}

var statusNames = [NumStatuses]string{"open", "done", "failed"}

func (s Status) String() string {
	if s < NumStatuses {
		return statusNames[s]
	}
	return "unknown"
}
