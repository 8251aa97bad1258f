// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"sync"

	"verbena/internal/monotime"
)

// pace bounds how many acknowledgement time-outs the queue pairs of a process act on. Each repeats
// a packet. The windows of thousands of queue pairs overflow the peer's socket together, though
// each is small. Their time-outs come together too and overflow it again, until all retries are
// spent while the peer is at work. A time-out beyond the bound is put off, and takes no retry.
//
// The bound is a bucket of tokens. A few hundred queue pairs never empty it.
type pace struct {
	mu     sync.Mutex
	tokens int           // guarded by mu
	filled monotime.Time // guarded by mu: up to when tokens have been added
}

const (
	// paceBurst bounds the time-outs that may come at once: as many small packets fit into a
	// socket of ordinary size (net.core.rmem_max of 212,992).
	paceBurst = 256
	// paceEvery is the time for one more. 16,000 packets a second are a tenth of a process's
	// capacity, so a peer that shares its processor keeps up. 10,000 queue pairs whose peer has
	// gone spend all their retries in 5 s.
	paceEvery = monotime.Second / 16000
)

// take reports whether a queue pair may act on a time-out now.
func (p *pace) take(now monotime.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := int(now.Sub(p.filled) / paceEvery); n >= paceBurst {
		p.tokens, p.filled = paceBurst, now
	} else if n > 0 {
		p.tokens = min(p.tokens+n, paceBurst)
		p.filled = p.filled.Add(monotime.Duration(n) * paceEvery)
	}
	if p.tokens == 0 {
		return false
	}
	p.tokens--
	return true
}
