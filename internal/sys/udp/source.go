// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
)

// Source ports of RoCEv2. Spec: IBTA A17.3.1 leaves the choice to the sender,
// as the flow's entropy; hardware uses the dynamic range, so that a flow keeps
// to one path and different flows spread.
const (
	SourcePortMin = 49152
	SourcePortMax = 65535
)

// MaxSources bounds the sending sockets of one address: 32 flows spread over
// the links of any trunk; more would only cost descriptors.
const MaxSources = 32

// sourceTries bounds the search for a free port in the dynamic range: with a quarter of it taken,
// 16 misses in a row have a chance of 2^-32.
const sourceTries = 16

// SourcePool hands out sending sockets of one address, each with its own
// source port. Its methods may be called concurrently.
type SourcePool struct {
	addr netip.Addr // immutable
	opt  Options    // immutable
	most int        // immutable: sockets open at once

	mu     sync.Mutex
	slot   [MaxSources]*Source // guarded by mu: the sockets open
	open   int                 // guarded by mu: how many of them
	closed bool                // guarded by mu
}

// Source is a socket to send from, shared by the flows that acquired it. Datagrams sent to it are
// dropped.
type Source struct {
	*Socket
	pool *SourcePool
	at   int    // immutable
	flow uint32 // immutable: of the first that acquired it
	refs int    // guarded by pool.mu
}

// NewSourcePool returns a pool that opens sockets on addr as they are needed.
func NewSourcePool(addr netip.Addr, o Options) *SourcePool {
	o.SendOnly = true
	p := &SourcePool{addr: addr, opt: o, most: MaxSources}
	if addr.IsLoopback() {
		p.most = 4
	}
	return p
}

// Acquire returns a socket for a flow: the one that it has, else a new one while there are fewer
// than MaxSources, then one of those there are, by hash of flow. The caller keeps it, and with it
// the source port, until Release. Flows of a loopback address share one: there is no trunk to
// spread over. Without descriptors they share the existing ones.
func (p *SourcePool) Acquire(flow uint32) (*Source, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("udp: source pool is closed")
	}
	for _, s := range p.slot {
		if s != nil && s.flow == flow {
			s.refs++
			return s, nil
		}
	}
	// The flow's own slot first, so that the same flow tends to the same port.
	hash := flow * 0x9e3779b1 // 2^32 / golden ratio
	home := int(hash>>16) % MaxSources
	if p.open < p.most {
		u, err := p.dial(hash)
		if err == nil {
			at := home
			for p.slot[at] != nil {
				at = (at + 1) % MaxSources
			}
			p.open++
			p.slot[at] = &Source{Socket: u, pool: p, at: at, flow: flow, refs: 1}
			return p.slot[at], nil
		}
		exhausted := errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
		if p.open == 0 || !exhausted {
			return nil, err
		}
	}
	at := home
	for p.slot[at] == nil {
		at = (at + 1) % MaxSources
	}
	p.slot[at].refs++
	return p.slot[at], nil
}

// dial binds a socket to a free port: the one that hash says, else any. Flows of many processes to
// one peer have the same hash.
func (p *SourcePool) dial(hash uint32) (*Socket, error) {
	const ports = SourcePortMax - SourcePortMin + 1
	for range sourceTries {
		if s, err := Listen(p.addr, uint16(SourcePortMin+(hash>>8)%ports), p.opt); err == nil {
			return s, nil
		}
		hash = rand.Uint32()
	}
	s, err := Listen(p.addr, 0, p.opt) // the system finds a free port where few are left
	if err != nil {
		return nil, fmt.Errorf("udp: no free source port: %w", err)
	}
	return s, nil
}

// Release gives back a socket of Acquire; the last one closes it. Nobody may be writing for this
// flow any more.
func (s *Source) Release() error {
	p := s.pool
	p.mu.Lock()
	s.refs--
	last := s.refs == 0
	if s.refs < 0 {
		p.mu.Unlock()
		panic("udp: source released more often than acquired")
	}
	if last && p.slot[s.at] == s {
		p.slot[s.at] = nil
		p.open--
	}
	p.mu.Unlock()
	if last {
		return s.Socket.Close()
	}
	return nil
}

// Close refuses further Acquires. Sockets close as their flows release them.
func (p *SourcePool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
}
