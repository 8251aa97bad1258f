package verbs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/osio/numa"
	"verbena/verbs"
)

// TestNTBOnANode has a link whose window is on a NUMA node, and one on a node that
// the machine does not have.
func TestNTBOnANode(t *testing.T) {
	if err := numa.Check(0); err != nil {
		t.Skipf("a machine without node 0: %v", err)
	}
	at := filepath.Join(t.TempDir(), "link")
	check(t, verbs.UseLinks("node=0:10.99.0.1=shm:s:"+at+",node=0:10.99.0.2=shm:c:"+at+",node=777:shm:"+at+"2"))
	t.Cleanup(func() { check(t, verbs.UseLinks("")) })
	_, err := verbs.Open("ntb2")
	wantError(t, err, syscall.EINVAL, "ntb2")
	if online, _ := os.ReadFile("/sys/devices/system/node/online"); !strings.Contains(err.Error(), "there are "+strings.TrimSpace(string(online))) {
		t.Errorf("the error does not say which nodes there are: %v", err)
	}
	a, b := newEndOn(t, "ntb0", ib.QPTypeRC, 1<<16), newEndOn(t, "ntb1", ib.QPTypeRC, 1<<16)
	awaitPort(t, a, ib.PortActive)
	awaitPort(t, b, ib.PortActive)
	connect(t, a, b, ib.MTU4096)
	b.inWindow()
	pattern(a.buf, 1)
	_, err = a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 1<<16)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	check(t, err)
	a.one()
	if !bytes.Equal(a.buf, b.buf) {
		t.Error("other bytes have arrived")
	}
	if n, err := numa.Of(b.buf); err != nil || n != 0 {
		t.Errorf("the window is on node %d: %v", n, err)
	}
}
