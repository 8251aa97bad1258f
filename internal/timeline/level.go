// SPDX-License-Identifier: BSD-2-Clause

package timeline

// Level is a thinned copy of a connection's packets: a Bucket for each run of them.
type Level []Bucket

// Bucket sums up a run of packets. Pairs are of A, and of B.
type Bucket struct {
	Start, End int64
	Low, High  [2]uint32 // numbers of requests; Low above High is none
	Payload    [2]uint32 // bytes sent
	InFlight   [2]uint32 // the most
	RTT        [2]uint32 // the longest
	Kinds      uint32    // a bit for each Kind
}

// bucketRows is the number of packets, or of buckets of the level before, in a bucket.
const bucketRows = 64

// Levels returns the thinned copies of a connection, the finest first. One of few packets has none.
func (t *Timeline) Levels(c *Conn) (list []Level) {
	from, to := c.PacketRange[0], c.PacketRange[1]
	if to-from <= bucketRows*bucketRows {
		return nil
	}
	fine := make(Level, 0, (to-from)/bucketRows+1)
	for ; from < to; from += bucketRows {
		fine = append(fine, t.bucket(from, min(from+bucketRows, to)))
	}
	list = append(list, fine)
	for last := fine; len(last) > bucketRows*bucketRows; {
		coarse := make(Level, 0, len(last)/bucketRows+1)
		for i := 0; i < len(last); i += bucketRows {
			coarse = append(coarse, merge(last[i:min(i+bucketRows, len(last))]))
		}
		list = append(list, coarse)
		last = coarse
	}
	return list
}

func (t *Timeline) bucket(from, to int) Bucket {
	p := &t.Packets
	b := Bucket{Start: p.Time[from], End: p.Time[to-1], Low: [2]uint32{None, None}}
	for i := from; i < to; i++ {
		sender, space := index(p.Flags[i]&FromB != 0), index(p.Flags[i]&OfB != 0)
		b.Kinds |= 1 << p.Kind[i]
		b.Payload[sender] += p.Payload[i]
		b.RTT[1-sender] = max(b.RTT[1-sender], p.RTT[i])
		b.InFlight[space] = max(b.InFlight[space], p.InFlight[i])
		if p.Kind[i] < CNP {
			n := p.Number[i]
			b.Low[space], b.High[space] = min(b.Low[space], n), max(b.High[space], n)
		}
	}
	return b
}

func merge(list []Bucket) Bucket {
	b := list[0]
	for _, o := range list[1:] {
		b.End = o.End
		b.Kinds |= o.Kinds
		for i := range b.Low {
			b.Low[i], b.High[i] = min(b.Low[i], o.Low[i]), max(b.High[i], o.High[i])
			b.Payload[i] += o.Payload[i]
			b.RTT[i], b.InFlight[i] = max(b.RTT[i], o.RTT[i]), max(b.InFlight[i], o.InFlight[i])
		}
	}
	return b
}
