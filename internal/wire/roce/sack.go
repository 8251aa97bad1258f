// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
)

// Gap is a range of PSNs: from First to before End.
type Gap struct{ First, End ib.PSN }

// SACK lists the requests that a responder misses. In [From, Upper) it has all but the Gaps, which
// ascend and begin with From. It has all before BTH.PSN, and says nothing about PSNs between
// BTH.PSN and From. A packet with it, SelectiveAcknowledge, goes to a requester that set
// BTH.Selective. It is Verbena's own: no specification has it.
type SACK struct {
	From, Upper ib.PSN
	Gaps        []Gap
}

// maxRun bounds a run of PSNs: serial arithmetic tells apart no more.
const maxRun = 1 << 23

// ParseSACK reads the payload of a SelectiveAcknowledge, and appends its gaps to gaps. The payload
// begins with the distance from BTH.PSN to From. Two numbers follow for each gap: its PSNs, and the
// PSNs that arrived before the next gap or Upper. All are varints of encoding/binary (Uvarint).
func ParseSACK(b []byte, psn ib.PSN, gaps []Gap) (s SACK, ok bool) {
	span, b, ok := run(b)
	s = SACK{From: psn.Add(span), Gaps: gaps}
	for s.Upper = s.From; ok && len(b) > 0; {
		var missing, arrived uint32
		if missing, b, ok = run(b); !ok {
			break
		}
		arrived, b, ok = run(b)
		span += missing + arrived
		ok = ok && missing > 0 && arrived > 0 && span < maxRun
		end := s.Upper.Add(missing)
		s.Gaps = append(s.Gaps, Gap{s.Upper, end})
		s.Upper = end.Add(arrived)
	}
	return s, ok && s.Upper != s.From
}

// run reads a number of PSNs.
func run(b []byte) (n uint32, rest []byte, ok bool) {
	v, k := binary.Uvarint(b)
	if k <= 0 || v >= maxRun {
		return 0, nil, false
	}
	return uint32(v), b[k:], true
}

// Append appends the payload to b, with as many gaps as fit its capacity, and returns how many. PSN
// is that of the BTH.
func (s SACK) Append(b []byte, psn ib.PSN) (payload []byte, told int) {
	b = binary.AppendUvarint(b, uint64(s.From.Diff(psn)))
	for i, g := range s.Gaps {
		if cap(b)-len(b) < 2*binary.MaxVarintLen32 {
			return b, i
		}
		next := s.Upper
		if i+1 < len(s.Gaps) {
			next = s.Gaps[i+1].First
		}
		b = binary.AppendUvarint(b, uint64(g.End.Diff(g.First)))
		b = binary.AppendUvarint(b, uint64(next.Diff(g.End)))
	}
	return b, len(s.Gaps)
}
