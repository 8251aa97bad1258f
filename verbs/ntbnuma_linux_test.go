// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/pages"
	"verbena/verbs"
)

// TestNTBOnANode has a link whose window is on a NUMA node, and one on a node that
// the machine does not have.
func TestNTBOnANode(t *testing.T) {
	b, err := os.ReadFile("/sys/devices/system/node/online")
	if err != nil {
		t.Skipf("this kernel has no NUMA nodes: boot one with CONFIG_NUMA to test it: %v", err)
	}
	online := strings.TrimSpace(string(b))
	node, err := strconv.Atoi(online[strings.LastIndexAny(online, ",-")+1:]) // the last one
	check(t, err)
	t.Logf("node %d of %s", node, online)
	at := filepath.Join(t.TempDir(), "link")
	check(t, verbs.UseLinks(fmt.Sprintf("node=%d:10.99.0.1=shm:s:%s,node=%d:10.99.0.2=shm:c:%s,node=777:shm:%s2", node, at, node, at, at)))
	t.Cleanup(func() { check(t, verbs.UseLinks("")) })
	_, err = verbs.Open("ntb2")
	wantError(t, err, syscall.EINVAL, "ntb2")
	if !strings.Contains(err.Error(), "there are "+online) {
		t.Errorf("the error does not say which nodes there are: %v", err)
	}
	a, peer := newEndOn(t, "ntb0", ib.QPTypeRC, 1<<16), newEndOn(t, "ntb1", ib.QPTypeRC, 1<<16)
	awaitPort(t, a, ib.PortActive)
	awaitPort(t, peer, ib.PortActive)
	connect(t, a, peer, ib.MTU4096)
	peer.inWindow()
	pattern(a.buf, 1)
	_, err = a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 1<<16)}, RemoteAddr: peer.mr.Addr(), RKey: peer.mr.RKey()})
	check(t, err)
	a.one()
	if !bytes.Equal(a.buf, peer.buf) {
		t.Error("other bytes have arrived")
	}
	if n, err := pages.Node(peer.buf); err != nil || n != node {
		t.Errorf("the window is on node %d: %v", n, err)
	}
}
