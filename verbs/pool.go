// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"errors"
	"sync"
	"syscall"

	"verbena/ib"
)

// Pool has registered blocks of memory of one size, for messages. It registers more memory as it
// needs it, many blocks at once. Its methods may be called concurrently. Get and Release allocate
// only when the pool grows.
type Pool struct {
	pd     *PD
	size   int // immutable, as pd and access
	access ib.Access

	mu     sync.Mutex
	closed bool
	free   []*Block
	blocks []*Block // all, by their ID
	mrs    []*MR
}

// Block is a part of a Pool's memory.
type Block struct {
	pool  *Pool
	mr    *MR
	at    int // offset in the region
	bytes []byte
	id    uint64
	taken bool // guarded by pool.mu
}

// poolGrowth is the number of bytes that a Pool registers at once, if its blocks are smaller.
const poolGrowth = 64 << 10

// NewPool returns an empty pool of blocks of size bytes, which are registered with access on the
// domain.
//
// Errors: EINVAL if size is less than 1.
func (p *PD) NewPool(size int, access ib.Access) (*Pool, error) {
	if size < 1 {
		return nil, &Error{Arg: "size", Why: "must be at least 1", Err: syscall.EINVAL}
	}
	return &Pool{pd: p, size: size, access: access}, nil
}

// Get returns a block that nobody uses. Its bytes are those of its last user, or zero.
//
// Errors: EBADF once the pool is closed; those of RegMR.
func (p *Pool) Get() (*Block, error) {
	if b, err := p.take(); b != nil || err != nil {
		return b, err
	}
	n := max(1, poolGrowth/p.size)
	memory := make([]byte, n*p.size)
	mr, err := p.pd.RegMR(memory, p.access)
	if err != nil {
		return nil, err
	}
	if b := p.grow(mr, memory); b != nil {
		return b, nil
	}
	return nil, errors.Join(errPoolClosed(), mr.Dereg())
}

// take returns a free block, nil if there is none.
func (p *Pool) take() (b *Block, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed()
	}
	if last := len(p.free) - 1; last >= 0 {
		b, p.free = p.free[last], p.free[:last]
		b.taken = true
	}
	return b, nil
}

// grow adds the blocks of a region's memory, and returns one that nobody uses. It returns nil if
// the pool was closed meanwhile.
func (p *Pool) grow(mr *MR, memory []byte) *Block {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.mrs = append(p.mrs, mr)
	first := len(p.blocks)
	for at := 0; at < len(memory); at += p.size {
		b := &Block{pool: p, mr: mr, at: at, id: uint64(len(p.blocks))}
		b.bytes = memory[at : at+p.size : at+p.size]
		p.blocks = append(p.blocks, b)
	}
	p.free = append(p.free, p.blocks[first+1:]...)
	p.blocks[first].taken = true
	return p.blocks[first]
}

func errPoolClosed() error { return &Error{Arg: "pool", Why: "is closed", Err: syscall.EBADF} }

// Block returns the block with an ID, which a completion's WRID has brought back; nil if the pool
// has given out no such block.
func (p *Pool) Block(id uint64) *Block {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id >= uint64(len(p.blocks)) || !p.blocks[id].taken {
		return nil
	}
	return p.blocks[id]
}

// Close deregisters the pool's memory.
//
// Errors: EBUSY while a block is not released, or while a memory window is bound to one: Close may
// be called again. EBADF once the pool is closed.
func (p *Pool) Close() error {
	mrs, err := p.end()
	for i, mr := range mrs {
		if err := mr.Dereg(); err != nil {
			p.mu.Lock()
			p.mrs = mrs[i:]
			p.mu.Unlock()
			return err
		}
	}
	return err
}

// end closes the pool, and returns the regions that are to be deregistered.
func (p *Pool) end() (mrs []*MR, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed && len(p.mrs) == 0:
		return nil, errPoolClosed()
	case len(p.free) < len(p.blocks):
		return nil, &Error{Arg: "pool", Why: "has blocks that are not released",
			Err: syscall.EBUSY}
	}
	mrs, p.mrs = p.mrs, nil
	p.closed, p.free, p.blocks = true, nil, nil
	return mrs, nil
}

// Bytes returns the block's memory.
func (b *Block) Bytes() []byte { return b.bytes }

// SGE returns the first n bytes of the block for the list of a work request. It panics if the block
// is shorter.
func (b *Block) SGE(n int) ib.SGE {
	_ = b.bytes[:n]
	return b.mr.SGE(b.at, n)
}

// Addr returns the block's address for the peer's work requests.
func (b *Block) Addr() uint64 { return b.mr.Addr() + uint64(b.at) }

// RKey returns the block's key for the peer's work requests. It is that of other blocks too: a peer
// that has it reaches them.
func (b *Block) RKey() ib.RKey { return b.mr.RKey() }

// ID returns a number for the ID of a work request. Pool.Block finds the block by it.
func (b *Block) ID() uint64 { return b.id }

// Release gives the block back. No work request that is posted may use it. It panics if the block
// was released before: two users would write to it.
func (b *Block) Release() {
	p := b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.taken {
		panic("verbs: Block released twice")
	}
	b.taken = false
	p.free = append(p.free, b)
}
