// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import "strings"

// The tests over RDMA that qperf's manual lists.
var (
	qperfRC = strings.Fields(`
		rc_bi_bw rc_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat
		rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add`)
	qperfOthers = strings.Fields(`
		uc_bi_bw uc_bw uc_lat uc_rdma_write_bw uc_rdma_write_lat uc_rdma_write_poll_lat ud_bi_bw ud_bw ud_lat`)
	qperfXRC = strings.Fields(`xrc_bi_bw xrc_bw xrc_lat`)
)

// qperf connects by the connection manager (-cm 1), which it can for RC only. By
// itself it gives no GRH, without which there is no address on Ethernet.
var qperf = func() (all []exchange) {
	add := func(test, label, options string) {
		all = append(all, exchange{
			program: "qperf", label: label, ready: "tcp", stays: true, either: true,
			server: "qperf -lp $PORT", client: "qperf $ADDR -lp $PORT -t 1 " + options + " " + test,
			says: []string{`(bw|latency|msg_rate) +=`},
		})
	}
	for _, test := range qperfRC {
		add(test, test, "-cm 1 -cp 0")
		if !strings.HasPrefix(test, "ver_") && !strings.Contains(test, "poll") {
			add(test, test+" -cp 1", "-cm 1 -cp 1")
		}
	}
	for _, test := range qperfOthers {
		add(test, test, "")
		x := &all[len(all)-1]
		// The server's words are lost if it ends before the client has read them.
		x.fails, x.says = 1, []string{`failed to (modify QP|create address handle)|server: `}
		x.cannot = "qperf gives UC and UD no GRH, which RoCE devices need"
	}
	for _, test := range qperfXRC {
		add(test, test, "")
		x := &all[len(all)-1]
		x.fails, x.says = 1, []string{test + `: bad test`}
		x.cannot = "Debian builds qperf without XRC"
	}
	return all
}()
