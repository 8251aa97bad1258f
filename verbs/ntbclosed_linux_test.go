// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"sync"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// TestNTBClosesItsMemory has a peer write all the time while its target goes, in each
// way that an application has. When the call returns no byte is written any more.
func TestNTBClosesItsMemory(t *testing.T) {
	for name, end := range map[string]func(b *end) error{
		"dereg":   func(b *end) error { return b.mr.Dereg() },
		"error":   func(b *end) error { return b.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr) },
		"reset":   func(b *end) error { return b.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr) },
		"destroy": func(b *end) error { return b.qp.Destroy() },
	} {
		t.Run(name, func(t *testing.T) {
			eachNTB(t, func(t *testing.T, kind string) {
				a, b := ntbEnds(t, kind, 4096)
				pattern(a.buf, 1)
				b.inWindow()
				const after = 200 // WRITEs once the target is gone
				w := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 4096)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
				begun, gone := make(chan struct{}), make(chan struct{})
				var over sync.WaitGroup
				over.Go(func() {
					left, posted := after, 0
					for left > 0 {
						select {
						case <-gone:
							left--
						default:
						}
						if _, err := a.qp.PostSend(w); err == nil { // or the queue is full: of WRITEs that wait for b
							if posted++; posted == after {
								close(begun)
							}
						}
						if _, err := a.cq.Poll(make([]ib.WC, 16)); err != nil {
							t.Error(err)
							left = 0
						}
					}
				})
				<-begun
				err := end(b)
				clear(b.buf)
				close(gone)
				over.Wait()
				check(t, err)
				if n := bytes.Count(b.buf, []byte{0}); n != len(b.buf) {
					t.Errorf("%d bytes were written afterwards", len(b.buf)-n)
				}
			})
		})
	}
}
