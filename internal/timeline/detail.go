// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
)

// chunkRows is the number of packets whose fields are compressed together.
const chunkRows = 1 << 10

// Details are the header fields of all packets, compressed in chunks of ChunkRows.
type Details struct {
	Chunks [][]byte
}

// ChunkRows is the number of packets in each chunk but the last.
const ChunkRows = chunkRows

// detailWriter compresses fields in another goroutine.
type detailWriter struct {
	rows int
	cur  []byte
	in   chan []byte
	out  chan [][]byte
}

func (w *detailWriter) start() {
	w.in, w.out = make(chan []byte, 4), make(chan [][]byte, 1)
	go compressAll(w.in, w.out)
}

func compressAll(in <-chan []byte, out chan<- [][]byte) {
	var chunks [][]byte
	var buf bytes.Buffer
	z, _ := flate.NewWriter(&buf, flate.BestSpeed)
	for b := range in {
		buf.Reset()
		z.Reset(&buf)
		z.Write(b)
		z.Close()
		chunks = append(chunks, bytes.Clone(buf.Bytes()))
	}
	out <- chunks
}

func (w *detailWriter) add(fields []byte) {
	w.cur = binary.AppendUvarint(w.cur, uint64(len(fields)))
	w.cur = append(w.cur, fields...)
	if w.rows++; w.rows == chunkRows {
		w.flush()
	}
}

func (w *detailWriter) flush() {
	w.in <- w.cur
	w.cur, w.rows = make([]byte, 0, len(w.cur)+1<<10), 0
}

func (w *detailWriter) end() Details {
	if w.rows > 0 {
		w.flush()
	}
	close(w.in)
	return Details{Chunks: <-w.out}
}
