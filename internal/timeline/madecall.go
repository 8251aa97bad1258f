// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"verbena/internal/wire/pcap"
)

// madeCall is a call that a process has written into its own capture.
type madeCall struct {
	file   int
	at     time.Time
	failed bool
	list   []attribute
}

// call takes a call of the current file.
func (b *builder) call(c pcap.Call) {
	if list := textAttributes(c.Text); list != nil && len(b.calls) < maxCalls {
		b.calls = append(b.calls, madeCall{b.file, c.Time, c.Failed, list})
	}
}

// finishCalls adds the calls of all files to the Timeline, and finds those of operations.
func (b *builder) finishCalls() {
	slices.SortStableFunc(b.calls, func(x, y madeCall) int { return x.at.Compare(y.at) })
	queues := sendQueues{map[queueKey]*sendQueue{}, map[int][]*sendQueue{}}
	for _, m := range b.calls {
		c, _ := b.t.callOf(m.list, m.file)
		if c.Name == "" {
			continue
		}
		c.Time, c.Failed = m.at.Sub(b.t.Start).Nanoseconds(), m.failed
		c.Time = min(max(c.Time, -maxSpan), maxSpan)
		if c.Name == pcap.CallsMissing {
			queues.lose(m.file)
		}
		queues.of(m).take(&m, uint32(len(b.t.Calls)))
		b.t.Calls = append(b.t.Calls, c)
	}
	for i, c := range b.t.Conns {
		for _, ofB := range []bool{false, true} {
			q := queues.all[queueKey{c.Files[index(ofB)], c.End(ofB).QPN}]
			switch {
			case q == nil || !q.created || q.broken:
			case c.Protocol == protoUD:
				b.t.matchDatagrams(i, ofB, q)
			default:
				b.t.match(i, ofB, q)
			}
		}
	}
}

// queueKey names a queue pair of the process that wrote a file.
type queueKey struct {
	file int
	qpn  uint32
}

// sendQueues are the queue pairs of all files.
type sendQueues struct {
	all   map[queueKey]*sendQueue
	whole map[int][]*sendQueue // by file: those since whose first call no call is missing
}

// lose notes that calls of a file are missing.
func (s sendQueues) lose(file int) {
	for _, q := range s.whole[file] {
		q.broken = true
	}
	delete(s.whole, file)
}

// sendQueue has the work requests of a queue pair in the order in which they were posted.
type sendQueue struct {
	created bool // in the capture, which then has all its work requests
	broken  bool // their order is not that of the operations
	posts   []post
	sends   []int            // of posts: those that are not local
	psn     uint32           // of the first
	hasPSN  bool             // psn is known
	next    int              // the first post that may complete
	waiting map[workID][]int // the posts of each that may complete, in order
	recvs   map[string]bool  // identifiers of receives
}

// workID names posts as a completion does.
type workID struct {
	id       string
	signaled bool
}

// post is a posted work request.
type post struct {
	call, completed uint32
	operation       Operation
	bytes           uint64
}

// of returns the queue pair that a call is about.
func (s sendQueues) of(m madeCall) *sendQueue {
	text := m.get("qpn")
	if text == "" {
		text = m.get("qp.qpn")
	}
	n, err := strconv.ParseUint(text, 0, 24)
	if err != nil {
		return &sendQueue{}
	}
	key := queueKey{m.file, uint32(n)}
	q := s.all[key]
	if q == nil {
		q = &sendQueue{}
		s.all[key] = q
		s.whole[m.file] = append(s.whole[m.file], q)
	}
	return q
}

func (m *madeCall) get(name string) string {
	i := slices.IndexFunc(m.list, func(a attribute) bool { return a.name == name })
	if i < 0 {
		return ""
	}
	return m.list[i].value
}

// workOf has the operations of work requests by the name of their opcode.
var workOf = map[string]Operation{"RDMA_WRITE": OpWrite, "RDMA_WRITE_WITH_IMM": OpWrite,
	"SEND": OpSend, "SEND_WITH_IMM": OpSend, "SEND_WITH_INV": OpSend, "RDMA_READ": OpRead,
	"ATOMIC_CMP_AND_SWP": OpAtomic, "ATOMIC_FETCH_AND_ADD": OpAtomic, "FLUSH": OpFlush,
	"ATOMIC_WRITE": OpAtomicWrite}

// take follows a call of the queue pair.
func (q *sendQueue) take(m *madeCall, call uint32) {
	switch m.get("msg") {
	case "ibv_create_qp":
		// The number of a destroyed one may be given again.
		*q = sendQueue{created: !m.failed, broken: q.created || q.broken,
			recvs: map[string]bool{}, waiting: map[workID][]int{}}
	case "ibv_modify_qp":
		if n, err := strconv.ParseUint(m.get("sq_psn"), 10, 24); err == nil && !m.failed {
			q.psn, q.hasPSN = uint32(n), true
		}
		// A reset drops the work requests that were not sent.
		q.broken = q.broken || m.get("qp.state") == "RESET" && len(q.posts) > 0
	case "ibv_post_recv":
		if q.created {
			q.recvs[m.get("wr_id")] = true
		}
	case "ibv_post_send":
		if m.failed || !q.created {
			return
		}
		o, sends := workOf[m.get("opcode")]
		bytes, _ := strconv.ParseUint(m.get("bytes"), 10, 64)
		if sends {
			q.sends = append(q.sends, len(q.posts))
		}
		w := workID{m.get("wr_id"), m.get("signaled") != "false"}
		q.waiting[w] = append(q.waiting[w], len(q.posts))
		q.posts = append(q.posts, post{call: call, completed: None, operation: o, bytes: bytes})
	case "completion":
		q.complete(m, call)
	}
}

// complete finds the work request of a completion. Completions come in the order of the work
// requests.
func (q *sendQueue) complete(m *madeCall, call uint32) {
	id, success := m.get("wr_id"), m.get("status") == "success"
	if success && strings.HasPrefix(m.get("opcode"), "RECV") || !success && q.recvs[id] {
		return
	}
	i := q.first(workID{id, true})
	if !success {
		i = min(i, q.first(workID{id, false}))
	}
	if i < len(q.posts) {
		q.posts[i].completed, q.next = call, i+1
	}
}

// first returns the first post that may complete with an identifier, len(q.posts) without one.
func (q *sendQueue) first(w workID) int {
	list := q.waiting[w]
	for len(list) > 0 && list[0] < q.next {
		list = list[1:]
	}
	if len(list) == 0 {
		delete(q.waiting, w)
		return len(q.posts)
	}
	q.waiting[w] = list
	return list[0]
}

// match finds the calls of an end's operations. It ends at the first operation that does not fit
// its work request, as the capture may lack packets.
func (t *Timeline) match(conn int, ofB bool, q *sendQueue) {
	c := t.Conns[conn]
	streams := c.Protocol == protoIWARP || c.Protocol == protoTRP
	var ops []*Op
	for i := c.OpRange[0]; i < c.OpRange[1]; i++ {
		if t.Ops[i].OfB == ofB {
			ops = append(ops, &t.Ops[i])
		}
	}
	slices.SortStableFunc(ops, func(x, y *Op) int { return cmp.Compare(x.first, y.first) })
	for _, i := range q.sends {
		p := &q.posts[i]
		n, bytes := 0, uint64(0)
		for n < len(ops) && ops[n].Operation == p.operation && (n == 0 || bytes < p.bytes) {
			if ops[n].hole {
				break
			}
			bytes += ops[n].Bytes
			n++
			if !streams || p.operation != OpRead {
				break // over a stream a READ is a request for each of its buffers
			}
		}
		if n == 0 || ops[0].Start < t.Calls[p.call].Time ||
			ops[n-1].Status == Done && sized(p.operation) && bytes != p.bytes {
			return
		}
		for _, o := range ops[:n] {
			t.tie(o, p, conn)
		}
		if len(ops) > n && !streams && ops[n].first != ops[n-1].end {
			return
		}
		ops = ops[n:]
	}
}

// tie notes the calls of an operation.
func (t *Timeline) tie(o *Op, p *post, conn int) {
	o.Posted, o.Completed = p.call, p.completed
	for _, c := range []uint32{p.call, p.completed} {
		if c != None {
			t.Calls[c].Conn = conn
		}
	}
}

// matchDatagrams finds the calls of a UD queue pair's operations to one peer: PSNs count the work
// requests to all peers.
func (t *Timeline) matchDatagrams(conn int, ofB bool, q *sendQueue) {
	c := t.Conns[conn]
	for i := c.OpRange[0]; i < c.OpRange[1]; i++ {
		o := &t.Ops[i]
		if o.OfB != ofB || !q.hasPSN {
			continue
		}
		n := (o.psn - q.psn) & maxPSN
		if int(n) >= len(q.sends) {
			continue
		}
		p := &q.posts[q.sends[n]]
		if o.Operation == p.operation && o.Bytes == p.bytes && o.Start >= t.Calls[p.call].Time {
			t.tie(o, p, conn)
		}
	}
}

// maxPSN is the largest PSN: it has 24 bits.
const maxPSN = 1<<24 - 1

// sized reports whether the bytes of an operation are those of its work request.
func sized(o Operation) bool { return o == OpWrite || o == OpSend || o == OpRead }
