//go:build linux && apps

package apps

import "strings"

// qperfTests are all of qperf's tests over RDMA that its manual lists, but XRC.
var qperfTests = strings.Fields(`
	rc_bi_bw rc_bw rc_lat uc_bi_bw uc_bw uc_lat ud_bi_bw ud_bw ud_lat
	rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat
	uc_rdma_write_bw uc_rdma_write_lat uc_rdma_write_poll_lat
	rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add`)

// qperf connects by the connection manager (-cm 1): by itself it sets no GRH,
// without which there is no address on Ethernet.
var qperf = func() (all []exchange) {
	for _, test := range qperfTests {
		for _, poll := range []string{"0", "1"} {
			if poll == "1" && (strings.HasPrefix(test, "ver_") || strings.Contains(test, "poll")) {
				continue
			}
			all = append(all, exchange{
				program: "qperf", label: test, ready: "tcp", stays: true, either: true,
				server: "qperf -lp $PORT", client: "qperf $ADDR -lp $PORT -cm 1 -cp " + poll + " -n 300 " + test,
				says: []string{test + `:\n +(bw|latency|msg_rate|send_bw)? *=?`},
			})
		}
	}
	return all
}()
