// SPDX-License-Identifier: BSD-2-Clause

package view

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"verbena/internal/timeline"
)

// column is a typed array of the page, in the block of rows.
type column struct {
	Table  string `json:"table"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Count  int    `json:"count"`
}

// rows gathers columns, in little-endian order. Another goroutine compresses them meanwhile.
type rows struct {
	size    int
	columns []column
	in      chan []byte
	out     chan []byte
}

func newRows() *rows {
	r := &rows{in: make(chan []byte, 4), out: make(chan []byte, 1)}
	go func() {
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
		for b := range r.in {
			z.Write(b)
		}
		z.Close()
		r.out <- out.Bytes()
	}()
	return r
}

// end returns the columns, compressed.
func (r *rows) end() []byte {
	close(r.in)
	return <-r.out
}

func (r *rows) add(table, name, kind string, n, size int, put func(b []byte, i int)) {
	b := make([]byte, n*size)
	for i := range n {
		put(b[i*size:], i)
	}
	r.columns = append(r.columns, column{table, name, kind, r.size, n})
	r.size += len(b)
	r.in <- b
}

// pad aligns the next column to 8 bytes.
func (r *rows) pad() {
	n := -r.size & 7
	r.size += n
	r.in <- make([]byte, n)
}

func (r *rows) f64(table, name string, n int, v func(i int) float64) {
	r.pad()
	r.add(table, name, "f64", n, 8, func(b []byte, i int) {
		binary.LittleEndian.PutUint64(b, math.Float64bits(v(i)))
	})
}

func (r *rows) u32(table, name string, n int, v func(i int) uint32) {
	r.pad()
	r.add(table, name, "u32", n, 4, func(b []byte, i int) {
		binary.LittleEndian.PutUint32(b, v(i))
	})
}

func (r *rows) u8(table, name string, n int, v func(i int) uint8) {
	r.add(table, name, "u8", n, 1, func(b []byte, i int) { b[0] = v(i) })
}

// of returns the values of a slice as a column's function.
func of[T any](v []T) func(int) T { return func(i int) T { return v[i] } }

type metaFile struct {
	Name   string `json:"name"`
	Frames int    `json:"frames"`
	Error  string `json:"error,omitempty"`
}

type metaEnd struct {
	Name       string  `json:"name"`
	Base       uint32  `json:"base"`
	Packets    uint64  `json:"packets"`
	Bytes      uint64  `json:"bytes"`
	Operations uint64  `json:"operations"`
	Done       uint64  `json:"done"`
	Failed     uint64  `json:"failed"`
	Repeated   uint64  `json:"repeated"`
	Late       uint64  `json:"late"`
	Lost       uint64  `json:"lost"`
	Resent     uint64  `json:"resent"`
	TimedOut   uint64  `json:"timedOut"`
	NAKs       uint64  `json:"naks"`
	RNRs       uint64  `json:"rnrs"`
	CNPs       uint64  `json:"cnps"`
	Marked     uint64  `json:"marked"`
	Bad        uint64  `json:"bad"`
	RTTs       uint64  `json:"rtts"`
	RTTMin     int64   `json:"rttMin"`
	RTTMean    float64 `json:"rttMean"`
	RTTMax     int64   `json:"rttMax"`
}

type metaFinding struct {
	Bad    bool   `json:"bad"`
	Text   string `json:"text"`
	Packet int    `json:"packet"`
}

type metaConn struct {
	File     int           `json:"file"`
	Protocol string        `json:"protocol"`
	Grade    string        `json:"grade"`
	A        metaEnd       `json:"a"`
	B        metaEnd       `json:"b"`
	Packets  [2]int        `json:"packets"`
	Ops      [2]int        `json:"ops"`
	Samples  [2]int        `json:"samples"`
	Levels   [][2]int      `json:"levels"`
	Findings []metaFinding `json:"findings"`
	Transit  int64         `json:"transit"`
	Joined   bool          `json:"joined"`
	Files    []string      `json:"files"`
	Captures string        `json:"captures"`
	Local    int           `json:"local"`
}

type metaCall struct {
	Time   int64  `json:"time"`
	Conn   int    `json:"conn"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed"`
}

type meta struct {
	Files      []metaFile  `json:"files"`
	Start      string      `json:"start"`
	Span       int64       `json:"span"`
	LeftOut    int         `json:"leftOut"`
	Kinds      []string    `json:"kinds"`
	Operations []string    `json:"operations"`
	Reasons    []string    `json:"reasons"`
	Fields     [][3]string `json:"fields"`
	Conns      []metaConn  `json:"conns"`
	Calls      []metaCall  `json:"calls"`
	Columns    []column    `json:"columns"`
	Chunks     []int       `json:"chunks"`
	ChunkRows  int         `json:"chunkRows"`
}

// encoded is a timeline as the page takes it.
type encoded struct{ meta, rows, details []byte }

func encode(t *timeline.Timeline) (encoded, error) {
	m := meta{Start: t.Start.Format(time.RFC3339Nano), Span: t.Span, LeftOut: t.LeftOut,
		Calls: []metaCall{}, Conns: []metaConn{}, ChunkRows: timeline.ChunkRows, Chunks: []int{0}}
	for _, f := range t.Files {
		f := metaFile{Name: clean(filepath.Base(f.Name)), Frames: f.Frames, Error: message(f.Err)}
		m.Files = append(m.Files, f)
	}
	for k := range timeline.NumKinds {
		m.Kinds = append(m.Kinds, k.String())
	}
	for o := range timeline.NumOperations {
		m.Operations = append(m.Operations, o.String())
	}
	for _, f := range timeline.FieldTable {
		m.Fields = append(m.Fields, [3]string{f.Layer, f.Name, f.Form})
	}
	for _, c := range t.Calls {
		m.Calls = append(m.Calls, metaCall(c))
	}
	r := newRows()
	addPackets(r, &t.Packets)
	m.Reasons = addOps(r, t.Ops)
	addSamples(r, t.Samples)
	var all timeline.Level
	for _, c := range t.Conns {
		mc := connOf(t, c)
		for _, l := range t.Levels(c) {
			mc.Levels = append(mc.Levels, [2]int{len(all), len(all) + len(l)})
			all = append(all, l...)
		}
		m.Conns = append(m.Conns, mc)
	}
	addLevels(r, all)
	m.Columns = r.columns
	data := r.end()
	var details []byte
	for _, c := range t.Details.Chunks {
		details = append(details, c...)
		m.Chunks = append(m.Chunks, len(details))
	}
	text, err := json.Marshal(m)
	if err != nil {
		return encoded{}, err
	}
	return encoded{meta: compress(text), rows: data, details: details}, nil
}

func clean(s string) string { return strings.ToValidUTF8(s, "�") }

func message(err error) string {
	if err == nil {
		return ""
	}
	return clean(err.Error())
}

func compress(b []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	io.Copy(z, bytes.NewReader(b))
	z.Close()
	return out.Bytes()
}

func connOf(t *timeline.Timeline, c *timeline.Conn) metaConn {
	mc := metaConn{File: c.File, Protocol: c.Protocol, Grade: c.Grade(), A: endOf(&c.A),
		B: endOf(&c.B), Packets: c.PacketRange, Ops: c.OpRange, Samples: c.SampleRange,
		Levels: [][2]int{}, Findings: []metaFinding{}}
	for _, f := range c.Findings {
		mc.Findings = append(mc.Findings, metaFinding{f.Bad, clean(f.Text), f.Packet})
	}
	mc.Transit, mc.Local = c.Transit(t)
	mc.Joined, mc.Captures, mc.Files = c.Joined(), clean(c.Captures), []string{}
	for i, n := range c.Files {
		if i == 0 || c.Joined() {
			mc.Files = append(mc.Files, clean(filepath.Base(t.Files[n].Name)))
		}
	}
	return mc
}

func endOf(e *timeline.End) metaEnd {
	m := metaEnd{Name: e.String(), Base: e.Base, Packets: e.Packets, Bytes: e.Bytes,
		Operations: e.Operations, Done: e.Done, Failed: e.Failed, Repeated: e.Repeated,
		Late: e.Late, Lost: e.Lost, Resent: e.Resent, TimedOut: e.TimedOut, RNRs: e.RNRs,
		CNPs: e.CNPs, Marked: e.Marked, Bad: e.Bad, RTTs: e.RTTs, RTTMin: e.RTTMin,
		RTTMax: e.RTTMax}
	for _, n := range e.NAKs {
		m.NAKs += n
	}
	if e.RTTs > 0 {
		m.RTTMean = float64(e.RTTSum) / float64(e.RTTs)
	}
	return m
}
