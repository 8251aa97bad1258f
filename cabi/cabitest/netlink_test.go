// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestNetlink: a program talks NETLINK_RDMA under verbena run.
func TestNetlink(t *testing.T) {
	if !ownNamespace(t) {
		return
	}
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
		{"-d link show roce_lo/1", `netdev_index \d+ *\n *caps: <CM>`}, // rxe's
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

// TestRdmaListsObjects has the program of iproute2 list the objects of another process.
func TestRdmaListsObjects(t *testing.T) {
	rdma, err := exec.LookPath("rdma")
	if err != nil {
		t.Skip("rdma is not installed: apt-get install iproute2")
	}
	command, run := verbena(t), "XDG_RUNTIME_DIR="+t.TempDir()
	lib, _ := libDir()
	holder := exec.CommandContext(t.Context(), compile(t, "held_objects"))
	holder.Env = append(os.Environ(), run, "LD_LIBRARY_PATH="+lib)
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	holder.Stderr = os.Stderr
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	defer in.Close()
	var lqpn, psn, other int
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, serr := fmt.Sscan(line, &lqpn, &psn, &other); err != nil || serr != nil {
		t.Fatalf("%q: %v, %v", line, err, serr)
	}
	by := fmt.Sprintf("pid %d comm held_objects ", holder.Process.Pid)
	cases := []struct{ args, want string }{
		{"resource show roce_lo", `^\d+: roce_lo: pd 1 cq 1 qp 2 cm_id 1 mr 1 ctx \d+ srq 1 `},
		{"resource show qp", fmt.Sprintf(`(?m)^link roce_lo/1 lqpn %d rqpn 0 type RC state INIT rq-psn 0 sq-psn %d path-mig-state MIGRATED pdn \d+ %s$`, lqpn, psn, by)},
		{"-d resource show qp lqpn " + fmt.Sprint(lqpn), fmt.Sprintf(` lqpn %d .* state INIT `, lqpn)},
		{"-j resource show qp", fmt.Sprintf(`"ifname":"roce_lo","port":1,"lqpn":%d,"rqpn":0,"type":"RC","state":"INIT",.*"pid":%d,"comm":"held_objects"`, lqpn, holder.Process.Pid)},
		{"resource show cq", `(?m)^dev roce_lo cqn \d+ cqe 16 users 4 ctxn \d+ ` + by + "$"},
		{"resource show pd", `(?m)^dev roce_lo pdn \d+ users 4 ctxn \d+ ` + by + "$"},
		{"resource show mr", `(?m)^dev roce_lo mrn \d+ mrlen 4096 pdn \d+ ` + by + "$"},
		{"resource show ctx", `(?m)^dev roce_lo ctxn \d+ ` + by + "$"},
		{"resource show srq", fmt.Sprintf(`(?m)^dev roce_lo srqn \d+ type BASIC *lqpn %d pdn \d+ %s$`, other, by)},
		{"resource show cm_id", `(?m)^link roce_lo/- cm-idn \d+ qp-type RC state IDLE ps TCP ` + by + "$"},
	}
	script := ""
	for _, c := range cases {
		script += rdma + " " + c.args + "; echo ===\n"
	}
	all, complaints := outputOf(t, command, []string{run}, "run", "sh", "-c", script)
	got := strings.Split(all, "===\n")
	if complaints != "" || len(got) != len(cases)+1 {
		t.Fatalf("%q %q", all, complaints)
	}
	for i, c := range cases {
		if !regexp.MustCompile(c.want).MatchString(got[i]) {
			t.Errorf("rdma %s: %q, want %s", c.args, got[i], c.want)
		}
	}
}
