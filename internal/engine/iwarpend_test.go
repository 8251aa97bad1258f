// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/queue"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/tcp"
)

// lateWriter is a connection whose writer gets no processor between its system
// call and what follows it.
type lateWriter struct {
	faultcap.Conn
	once  *sync.Once
	after func()
}

func (w lateWriter) Writev(v *tcp.Vectors, b [][]byte) (int, error) {
	n, err := w.Conn.Writev(v, b)
	w.once.Do(w.after)
	return n, err
}

// What is written completes also where the peer has it, and has ended the stream,
// before the writer says so. Found by pingpong, whose last SEND was flushed.
func TestIWARPEndBehindAWrite(t *testing.T) {
	for name, end := range map[string]func(*endpoint){
		"in order": func(e *endpoint) { e.Disconnect() },
		"reset":    func(e *endpoint) { e.modify(&ib.QPAttr{State: ib.QPReset}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := iwarpPair(t, defaultBackoff, bigBuffer, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
			transfer(t, a, b, 1000, 9)
			b.recvOf(1000)
			c := a.Conn.iwarp
			a.Lock()
			c.sock = lateWriter{c.sock, &sync.Once{}, func() {
				b.want(ib.WCRecv, ib.WCSuccess)
				end(b)
				until(t, "the end is read", func() bool {
					a.node.eng.Poll()
					a.Lock()
					defer a.Unlock()
					return c.eof || c.ended != notEnded || a.Machine().State() == ib.QPErr
				})
			}}
			a.Unlock()
			a.request(queue.SendWQE{Opcode: ib.WRSend, Length: 1000})
			a.want(ib.WCSend, ib.WCSuccess)
			until(t, "the queue pair has ended", func() bool { a.node.eng.Poll(); return a.state() == ib.QPErr })
		})
	}
}
