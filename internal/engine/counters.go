// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"verbena/internal/mem"
	wire "verbena/internal/wire/roce"
)

// wireCounters count what never reached a queue pair.
type wireCounters struct {
	malformed  [wire.NumMalformed]atomic.Uint64
	badICRC    atomic.Uint64
	unknownQP  atomic.Uint64
	badMAD     atomic.Uint64
	badMADKey  atomic.Uint64
	readErrors atomic.Uint64
	// packets between queue pairs of this host, which went through memory
	localSent, localRcvd, localRefused, localLost, localCorrupt, localBehind atomic.Uint64
}

// Account sums the counters of one device's queue pairs, past ones included.
type Account struct {
	names []string // immutable: those of the machines' counts

	mu     sync.Mutex
	counts []uint64 // guarded by mu: of those that ended
}

// NewAccount returns an account for queue pairs whose machines' counts have
// these names.
func NewAccount(names []string) *Account {
	return &Account{names: names, counts: make([]uint64, len(names))}
}

func (a *Account) add(counts []uint64) {
	a.mu.Lock()
	accumulate(a.counts, counts)
	a.mu.Unlock()
}

func accumulate(sum, counts []uint64) {
	for i, v := range counts {
		sum[i] += v
	}
}

// Counter is a named count.
type Counter struct {
	Name  string
	Value uint64
}

// Counters returns the counts of an account's queue pairs and, for the whole
// process, of packets that reached none and of connection managers.
func (e *Engine) Counters(a *Account) []Counter {
	a.mu.Lock()
	sum := slices.Clone(a.counts)
	a.mu.Unlock()
	var one []uint64
	e.conns.each(func(c *Conn) {
		if c.account != a {
			return
		}
		c.mu.Lock()
		one = c.machine.AppendCounts(one[:0])
		c.mu.Unlock()
		accumulate(sum, one)
	})
	e.mu.Lock()
	overMTU := e.overMTU
	for u := range e.sources {
		overMTU += u.Counters().TooBig
	}
	e.mu.Unlock()
	var out []Counter
	for i, v := range sum {
		out = append(out, Counter{a.names[i], v})
	}
	for _, l := range e.links() {
		if l.account == a {
			out = append(out, l.counts()...)
		}
	}
	for i := wire.TooShort; i < wire.NumMalformed; i++ {
		out = append(out, Counter{"malformed_" + i.String(), e.wire.malformed[i].Load()})
	}
	out = append(out, e.trpListeners.counts()...)
	out = e.tally.append(out)
	w := &e.wire
	return append(out,
		Counter{"bad_icrc", w.badICRC.Load()}, Counter{"unknown_qp", w.unknownQP.Load()}, Counter{"bad_mad", w.badMAD.Load()},
		Counter{"bad_mad_qkey", w.badMADKey.Load()}, Counter{"read_errors", w.readErrors.Load()},
		Counter{"over_mtu", overMTU}, Counter{"unmapped_bytes", mem.Unplaced()}, Counter{"kernel_dropped", e.member.Dropped()},
		Counter{"local_sent_pkts", w.localSent.Load()}, Counter{"local_rcvd_pkts", w.localRcvd.Load()}, Counter{"local_refused", w.localRefused.Load()},
		Counter{"local_lost", w.localLost.Load()}, Counter{"local_corrupt", w.localCorrupt.Load()}, Counter{"local_behind", w.localBehind.Load()})
}
