// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"verbena/internal/sys/freeport"
)

// TestNodeExporter has Prometheus's node_exporter read ports and counters below the root of
// "verbena run", as docs/applications.md says.
func TestNodeExporter(t *testing.T) {
	exporter, err := exec.LookPath("prometheus-node-exporter")
	if err != nil {
		t.Skip("there is no prometheus-node-exporter in $PATH: make capi downloads it")
	}
	port, err := freeport.Free()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, verbena(t), "run", "--device", "roce_lo", "--", "sh", "-c",
		`ls /sys/class/infiniband/*/ports/1/hw_counters; exec "$0" --path.sysfs=$VERBENA_ROOT/sys --collector.disable-defaults --collector.infiniband --web.listen-address="$1"`, exporter, address)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got, err := page(ctx, "http://"+address+"/metrics")
	cancel()
	_ = cmd.Wait() // killed
	if err != nil {
		t.Fatalf("%v; it said %s", err, &said)
	}
	for _, want := range []string{
		`node_infiniband_info{board_id="roce",device="roce_lo",`,
		`node_infiniband_state_id{device="roce_lo",port="1"} 4`,
		`node_infiniband_physical_state_id{device="roce_lo",port="1"} 5`,
		`node_infiniband_port_data_transmitted_bytes_total{device="roce_lo",port="1"} 0`,
		`node_infiniband_port_packets_received_total{device="roce_lo",port="1"} 0`,
		`node_scrape_collector_success{collector="infiniband"} 1`,
	} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	for _, name := range []string{"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err", "ack_deferred",
		"retry_exceeded_err", "retry_rnr_exceeded_err", "completer_retry_err", "send_err", "link_downed", "rdma_sends", "rdma_recvs"} { // rxe's
		if !strings.Contains("\n"+out.String(), "\n"+name+"\n") {
			t.Errorf("no hw_counters/%s in\n%s", name, &out)
		}
	}
}

// page returns a page of a server that is starting.
func page(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	for again := time.NewTicker(20 * time.Millisecond); ; <-again.C {
		resp, err := http.DefaultClient.Do(req)
		switch {
		case err == nil:
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			return string(b), err
		case ctx.Err() != nil:
			return "", err
		}
	}
}
