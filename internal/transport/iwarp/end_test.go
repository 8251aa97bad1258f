// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/queue"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/tcp"
	"verbena/internal/testkit/rig"
)

// lateWriter is a connection whose writer gets no processor between its system call and its next
// step.
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

// Written work completes also where the peer has it, and has ended the stream, before the writer
// returns. Found by pingpong, whose last SEND was flushed.
func TestIWARPEndBehindAWrite(t *testing.T) {
	for name, end := range map[string]func(*endpoint){
		"in order": func(e *endpoint) { connOf(e).Disconnect() },
		"reset":    func(e *endpoint) { e.ModifyTo(&ib.QPAttr{State: ib.QPReset}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := iwarpPair(t, policy.Nap, rig.BigBuffer, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
			rig.Transfer(t, a, b, 1000, 9)
			b.RecvOf(1000)
			c := connOf(a)
			a.Lock()
			c.sock = lateWriter{c.sock, &sync.Once{}, func() {
				b.Want(ib.WCRecv, ib.WCSuccess)
				end(b)
				rig.Until(t, "the end is read", func() bool {
					a.Node.Eng.FirstLane().Poll()
					a.Lock()
					defer a.Unlock()
					return c.state.peerEnded() || c.ended != notEnded || a.Machine().State() == ib.QPErr
				})
			}}
			a.Unlock()
			a.Request(queue.SendWQE{Opcode: ib.WRSend, Length: 1000})
			a.Want(ib.WCSend, ib.WCSuccess)
			rig.Until(t, "the queue pair has ended", func() bool { a.Node.Eng.FirstLane().Poll(); return a.State() == ib.QPErr })
		})
	}
}
