// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"regexp"
	"testing"
)

// TestLog: VERBENA_LOG writes the calls, work requests and failures of a C program to its stderr.
func TestLog(t *testing.T) {
	program := compile(t, "verbs_mw")
	lib, _ := libDir()
	for level, want := range map[string][]string{
		"": nil,
		"warn": {`level=WARN msg=completion device=roce_lo qpn=0x\w+ wr_id=\d+ status="remote access error" reason=\S.* peer=127.0.0.1:4791\n`,
			`level=WARN msg="asynchronous event" device=roce_lo type="local access violation work queue error" qpn=0x\w+ peer=127.0.0.1:4791 reason=\S.*\n`,
		},
		"debug": {
			`level=INFO msg=ibv_open_device device=roce_lo\n`,
			`level=INFO msg=ibv_reg_mr device=roce_lo mr.lkey=0x\w+ mr.rkey=0x\w+ mr.addr=0x\w+ mr.length=\d+\n`,
			`level=INFO msg=ibv_modify_qp device=roce_lo qp.qpn=0x\w+ qp.type=RC qp.state=RTS qp.peer=127.0.0.1:4791 qp.peer_qpn=0x\w+\n`,
			`level=DEBUG msg=ibv_post_send device=roce_lo qpn=0x\w+ wr_id=\d+ opcode=RDMA_WRITE bytes=\d+\n`,
			`level=DEBUG msg=completion device=roce_lo qpn=0x\w+ wr_id=\d+ status=success opcode=RDMA_WRITE bytes=`,
		},
	} {
		_, complaints := outputOf(t, program, []string{"LD_LIBRARY_PATH=" + lib, "VERBENA_LOG=" + level}, "127.0.0.1")
		for _, line := range want {
			if !regexp.MustCompile(line).MatchString(complaints) {
				t.Errorf("%s: no line %s in\n%s", level, line, complaints)
			}
		}
		if level == "" && complaints != "" {
			t.Errorf("without a level: %s", complaints)
		}
		if level == "warn" && regexp.MustCompile("level=(INFO|DEBUG)").MatchString(complaints) {
			t.Errorf("%s: %s", level, complaints)
		}
	}
}

// TestLogOfRejects: a refused connection is a line at both ends, and names peer and reason.
func TestLogOfRejects(t *testing.T) {
	program := compile(t, "cm_reject")
	lib, _ := libDir()
	_, complaints := outputOf(t, program, []string{"LD_LIBRARY_PATH=" + lib, "VERBENA_LOG=info"}, "127.0.0.1")
	for _, line := range []string{
		`level=INFO msg="connection event" device=roce_lo type=rdma_reject local=127.0.0.1:\d+ peer=127.0.0.1:\d+\n`,
		`level=WARN msg="connection event" device=roce_lo type=RDMA_CM_EVENT_REJECTED .*local=127.0.0.1:\d+ peer=127.0.0.1:\d+ reason="127.0.0.1:\d+ has rejected the connection"\n`,
	} {
		if !regexp.MustCompile(line).MatchString(complaints) {
			t.Errorf("no line %s in\n%s", line, complaints)
		}
	}
}
