// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/loopback"
	"verbena/internal/timeline"
	"verbena/verbs"
)

// Over iWARP, TRP and UD operations have their calls too. An iWARP client speaks first by itself.
func TestCaptureCallsOfKinds(t *testing.T) {
	for name, ends := range map[string]func(t *testing.T) (a, b *end){
		"iWARP": func(t *testing.T) (a, b *end) { return iwarpEnds(t, 1<<16) },
		"TRP":   func(t *testing.T) (a, b *end) { return trpEnds(t, 1<<16) },
		"UD":    func(t *testing.T) (a, b *end) { return datagrams(t, 8192), datagrams(t, 8192) },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "calls.pcapng")
			c, err := verbs.Open(loopback.Device(t), verbs.WithCapture(file), verbs.WithCaptureCalls())
			check(t, err)
			t.Cleanup(func() { check(t, c.Close()) })
			a, b := ends(t)
			wr := verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 1000)}}
			if name == "UD" {
				index, gid := a.gidOf("127.0.0.1")
				wr.AH, wr.RemoteQPN, wr.RemoteQKey = a.handle(index, gid), b.qp.QPN(), testQKey
			}
			for id := range 3 {
				b.recv(1, 4096)
				wr.ID = uint64(100 + id)
				wantStatus(t, a.post(wr).Status, ib.WCSuccess)
				b.one()
				if name != "UD" {
					wantStatus(t, a.post(verbs.SendWR{ID: uint64(200 + id), Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.mr.SGE(0, 2000), a.mr.SGE(2000, 3000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}).Status, ib.WCSuccess)
				}
			}
			check(t, verbs.FlushCapture())
			tl := readTimeline(t, file)
			counted := map[string]int{}
			for _, o := range tl.Ops {
				if o.Posted == timeline.None || o.Completed == timeline.None {
					t.Fatalf("%s has no calls: %+v in %+v", o.Title(), o, tl.Calls)
				}
				post, done := tl.Calls[o.Posted], tl.Calls[o.Completed]
				if post.Time > o.Start || post.Conn < 0 || done.Conn != post.Conn || !strings.Contains(post.Text, "opcode="+strings.Replace(o.Operation.String(), "READ", "RDMA_READ", 1)) {
					t.Errorf("%s: %+v, %+v", o.Title(), post, done)
				}
				counted[o.Operation.String()]++
			}
			if counted["SEND"] != 3 || name != "UD" && counted["READ"] != 6 { // one for each buffer
				t.Errorf("%v", counted)
			}
		})
	}
}
