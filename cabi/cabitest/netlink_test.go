// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os/exec"
	"regexp"
	"testing"
)

// TestNetlink: a program talks NETLINK_RDMA under verbena run.
func TestNetlink(t *testing.T) {
	if _, complaints := outputOf(t, verbena(t), []string{"XDG_RUNTIME_DIR=" + t.TempDir()}, "run", compile(t, "netlink")); complaints != "" {
		t.Error(complaints)
	}
}

// TestRdma runs the program of iproute2.
func TestRdma(t *testing.T) {
	rdma, err := exec.LookPath("rdma")
	if err != nil {
		t.Skip("rdma is not installed: apt-get install iproute2")
	}
	command, env := verbena(t), []string{"XDG_RUNTIME_DIR=" + t.TempDir()}
	for _, c := range []struct{ args, want string }{
		{"dev show roce_lo", `^\d+: roce_lo: node_type ca .*fw \d.* node_guid ([0-9a-f]{4}:){3}[0-9a-f]{4} sys_image_guid`},
		{"-d dev show roce_lo", `caps: <.*RC_RNR_NAK_GEN.*>`},
		{"link show roce_lo/1", `^link roce_lo/1 state ACTIVE physical_state LINK_UP netdev lo`},
		{"-j -d link show roce_lo/1", `"ifname":"roce_lo","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"lo"`},
		{"resource show roce_lo", `: roce_lo: pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0 srq 0`},
		{"-j resource show qp", `^\[ ?\]`},
		{"statistic show link roce_lo/1", `^link roce_lo/1 .*retry_exceeded_err 0 .*sent_pkts 0 `},
		{"system", `netns exclusive`},
	} {
		out, complaints := outputOf(t, command, env, "run", "sh", "-c", rdma+" "+c.args)
		if !regexp.MustCompile(c.want).MatchString(out) || complaints != "" {
			t.Errorf("rdma %s: %q %q, want %s", c.args, out, complaints, c.want)
		}
	}
}
