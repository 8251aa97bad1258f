// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"sync"

	"verbena/ib"
	"verbena/internal/rstream"
	"verbena/verbs"
)

// scratch has the arguments of verbs. All streams share a few: those that a processor used last are
// in its cache, where those of a stream would not be beside a thousand others.
type scratch struct {
	wc       [16]ib.WC
	control  rstream.Control
	sends    [2]verbs.SendWR
	sges     [2]ib.SGE
	word     [4]byte // of a SEND
	recvs    [receiveBatch]verbs.RecvWR
	recvSGEs [receiveBatch]ib.SGE
}

// receiveBatch is the number of receives that are posted at once.
const receiveBatch = 16

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

// put returns s, which keeps nothing of the caller's.
func (s *scratch) put() { scratches.Put(s) }
