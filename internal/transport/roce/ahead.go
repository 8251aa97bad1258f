// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/internal/engine"
	"verbena/internal/mem"
	"verbena/internal/transport/shm"
	wire "verbena/internal/wire/roce"
)

// ahead has the connections of the packets that wait in a ring. With a thousand streams the state
// of a connection has left the caches when its next packet comes, and takes a hundred of their
// lines. So a reader asks for that of the next packets while it handles one:
//
//	all packets          the engine.Conn
//	two packets ahead    its list of objects
//	the next packet      these objects
//
// Packets of one connection in a row have it in the caches already.
type ahead struct {
	conns [shm.MaxAhead]*engine.Conn // nil: unknown, or that of the packet before
	n     int
	at    int // the packet that is handled
}

// Ahead implements shm.Reader.
func (r *ringReader) Ahead(bursts [][]byte) {
	a := &r.ahead
	var last *engine.Conn
	for i, b := range bursts {
		a.conns[i] = nil
		if len(b) < wire.BTHBytes {
			continue
		}
		if c := r.roce.eng.Find(wire.DestQPOf(b)); c != nil && c != last {
			a.conns[i], last = c, c
			mem.LinesOf(c).Preload()
		}
	}
	a.n, a.at = len(bursts), 0
	a.preloadList(0)
	a.preloadList(1)
	a.preload(0)
}

// next asks for the memory of the packets behind the one that is about to be handled.
func (a *ahead) next() {
	if a.at < a.n {
		a.preloadList(a.at + 2)
		a.preload(a.at + 1)
		a.at++
	}
}

func (a *ahead) preloadList(i int) {
	if i < a.n && a.conns[i] != nil {
		a.conns[i].Near.PreloadList()
	}
}

func (a *ahead) preload(i int) {
	if i < a.n && a.conns[i] != nil {
		a.conns[i].Near.Preload()
	}
}

// forget keeps no connection alive.
func (a *ahead) forget() {
	clear(a.conns[:a.n])
	a.n = 0
}
