// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"time"

	"verbena/internal/trace"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

// maxPackets bounds the rows of all captures. A row and its details take about 100 bytes.
const maxPackets = 1 << 24

// maxSpan bounds the time of packets, from the first on: 36 years, so that differences fit.
const maxSpan = 1 << 60

// maxOps bounds operations, which are as large as rows.
const maxOps = 1 << 23

// Source is a capture to read.
type Source struct {
	Name   string
	Reader *pcapread.Reader
	Err    error // why there is no Reader
}

// builder takes the packets of one capture after the other.
type builder struct {
	t       *Timeline
	file    int
	flows   map[flowKey]*flow // of the current file
	all     []*flow           // of the current file
	waiting map[ends][]*flow  // RC flows with requests and without a peer
	greets  map[greeting]*flow
	trp     trace.Associations
	clients map[association]flowKey
	streams trace.Streams
	detail  detailWriter
	fields  fieldList
	twice   twice
	calls   []madeCall
	first   time.Time

	// The flow of each row, operation and sample of the current file, in the order of capture; how
	// many there were before; and the connection of each, once the file has ended.
	rowFlow, opFlow, sampled    []uint32
	rowBase, opBase, sampleBase int
	rowConn, opConn, sampleConn []uint32

	// with several files: what identifies each row, and the operation of another file that each is
	merging  bool
	seed     maphash.Seed
	rowIdent []uint64
	opTwin   []uint32

	// the current frame
	frame   int
	at      int64
	comment string
	whole   []byte // a payload that was cut short, and 0 for the rest

	// the current packet
	ident     uint64
	direction pcap.Direction
}

// Read reads captures. A capture that is damaged ends where the damage is; File.Err says so.
func Read(ctx context.Context, sources ...Source) (*Timeline, error) {
	b := &builder{t: &Timeline{}, merging: len(sources) > 1, seed: maphash.MakeSeed()}
	b.detail.start()
	var err error
	for i, s := range sources {
		b.beginFile(i, s.Name)
		f := &b.t.Files[i]
		if f.Err = s.Err; s.Err == nil {
			f.Err = b.readAll(ctx, s.Reader)
			f.Frames = s.Reader.Frame()
		}
		b.endFile()
		if err = ctx.Err(); err != nil {
			break
		}
	}
	b.t.Details = b.detail.end()
	if err != nil {
		return nil, err
	}
	b.finish()
	return b.t, nil
}

func (b *builder) beginFile(i int, name string) {
	b.file = i
	b.t.Files = append(b.t.Files, File{Name: name})
	b.flows, b.all = map[flowKey]*flow{}, nil
	b.waiting, b.greets = map[ends][]*flow{}, map[greeting]*flow{}
	b.trp, b.streams = trace.Associations{}, trace.Streams{}
	b.clients = map[association]flowKey{}
	b.twice = twice{}
	b.rowFlow, b.opFlow, b.sampled = nil, nil, nil
}

func (b *builder) readAll(ctx context.Context, r *pcapread.Reader) (err error) {
	for batch := range readAhead(ctx, r) {
		for i := range batch {
			if e := &batch[i]; err == nil {
				err = b.take(e)
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF):
		b.streams.Flush(b.item(nil))
		return nil
	}
	return fmt.Errorf("the rest of the capture cannot be read: %w", err)
}

// take takes an entry of the capture. It returns the error at the end.
func (b *builder) take(e *entry) error {
	switch d := e.d; {
	case e.err != nil:
		return e.err
	case e.call != nil:
		b.call(*e.call)
	case e.s != nil:
		b.begin(e.frame, e.s.Time, e.s.Comment)
		b.segment(e.s)
	case d.Dst.Port() == roce.Port:
		b.begin(e.frame, d.Time, d.Comment)
		if !b.twice.arrives(d, b.at) {
			b.roce(d)
		}
	case b.trp.Has(d):
		b.begin(e.frame, d.Time, d.Comment)
		if !b.twice.arrives(d, b.at) {
			b.association(d)
		}
	}
	return nil
}

func (b *builder) begin(frame int, at time.Time, comment string) {
	if b.first.IsZero() {
		b.first = at
	}
	since := at.Sub(b.first).Nanoseconds()
	b.frame, b.at, b.comment = frame, min(max(since, -maxSpan), maxSpan), comment
	b.fields.reset()
}

// row appends a packet of a flow, whose other columns the caller sets. It returns None if there are
// too many.
func (b *builder) row(f *flow, kind Kind, number int64, length int) uint32 {
	p := &b.t.Packets
	if f == nil || len(p.Time) >= maxPackets {
		b.t.LeftOut++
		return None
	}
	n := uint32(len(p.Time))
	if len(p.Time) == cap(p.Time) {
		b.growRows()
	}
	p.Time = append(p.Time, b.at)
	p.Number = append(p.Number, uint32(number))
	p.Payload = append(p.Payload, 0)
	p.Length = append(p.Length, uint32(length))
	p.Op = append(p.Op, None)
	p.RTT = append(p.RTT, 0)
	p.InFlight = append(p.InFlight, 0)
	p.Serial = append(p.Serial, n)
	p.Kind = append(p.Kind, kind)
	p.Flags = append(p.Flags, 0)
	b.rowFlow = append(b.rowFlow, f.index)
	if b.merging {
		b.rowIdent = append(b.rowIdent, b.ident)
		if f.told == pcap.DirectionUnknown {
			f.told = b.direction
		}
	}
	f.last, f.seen = n, true
	f.h.Packets++
	return n
}

// growRows makes room for twice as many rows. By itself append copies them more often.
func (b *builder) growRows() {
	p := &b.t.Packets
	p.Time = double(p.Time)
	for _, c := range []*[]uint32{&p.Number, &p.Payload, &p.Length, &p.Op, &p.RTT, &p.InFlight,
		&p.Serial} {
		*c = double(*c)
	}
	p.Kind, p.Flags = double(p.Kind), double(p.Flags)
}

// double returns v with room for twice as many elements.
func double[T any](v []T) []T { return slices.Grow(v, max(len(v), 1<<10)) }

// done ends a frame: its fields and its comment are kept.
func (b *builder) done(row uint32, f *flow) {
	if row == None {
		return
	}
	if b.comment != "" {
		b.fields.text(fieldComment, b.comment)
		if f.own == 0 {
			f.own = numberOf(b.comment)
		}
		if s, ok := parseSample(b.comment); ok && len(b.t.Samples) < maxPackets {
			s.Time = b.at
			b.t.Samples = append(b.t.Samples, s)
			b.sampled = append(b.sampled, f.index)
		}
	}
	b.detail.add(b.fields.bytes())
}

// clip makes a column's number of a duration.
func clip(d int64) uint32 { return uint32(min(max(d, 0), math.MaxUint32)) }

// ecnMask and congestionExperienced are codepoints of RFC 3168, section 5.
const (
	ecnMask               = 3
	congestionExperienced = 3
)

func marked(d *pcap.Datagram) bool { return d.TrafficClass&ecnMask == congestionExperienced }
