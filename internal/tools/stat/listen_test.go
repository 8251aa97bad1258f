// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"verbena/internal/stats"
	"verbena/internal/sys/freeport"
	"verbena/verbs"
)

const dashboard = "../../../packaging/grafana.json"

// scraped returns the metrics of a lossy and a fast process.
func scraped(t *testing.T, handler http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, metricsPath, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// exported has processes of each transport serve, and returns the handler.
func exported(t *testing.T) http.Handler {
	dir, err := os.MkdirTemp("", "vs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for i, s := range append(connected(), stats.Snapshot{PID: 11, Devices: []stats.Device{{Name: "roce_eth0", Kind: "RoCEv2", Counters: allCounts()}}}) {
		server, err := stats.Serve(dir, fmt.Sprintf("77-%d", i), func() stats.Snapshot { return s }, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
	}
	return metricsHandler(dir)
}

// allCounts are counts that a device of each kind may have.
func allCounts() (list []stats.Counter) {
	for i, name := range []string{"sent_pkts", "sent_bytes", "rcvd_pkts", "rcvd_bytes", "lost_pkts", "retransmitted_pkts", "rcvd_seq_err", "rcvd_rnr_err", "rcvd_error_nak",
		"local_ack_timeout_err", "np_ecn_marked_roce_packets", "rp_cnp_handled", "retry_exceeded_err", "retry_rnr_exceeded_err", "bad_icrc", "malformed_too_short"} {
		list = append(list, stats.Counter{Name: name, Value: uint64(1000 + i)})
	}
	return append(list, stats.Counter{Name: "sent_segments", Value: 5})
}

// The counts are those of devices: the dashboard shows real ones.
func TestCountsAreOfDevices(t *testing.T) {
	list, err := verbs.Devices()
	if err != nil || len(list) == 0 {
		t.Skipf("there are no devices: %v", err)
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for _, d := range list {
		c, err := verbs.Open(d.Name)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	there := map[string]bool{}
	for _, d := range verbs.Vars().(stats.Snapshot).Devices {
		for _, c := range d.Counters {
			there[c.Name] = true
		}
	}
	for _, c := range allCounts() {
		if !there[c.Name] {
			t.Errorf("no device counts %s", c.Name)
		}
	}
	for name := range exporterNames {
		if !there[name] {
			t.Errorf("no device counts %s, which has a name of node_exporter's", name)
		}
	}
}

func TestMetrics(t *testing.T) {
	got := scraped(t, exported(t))
	for _, want := range []string{
		`node_infiniband_port_data_transmitted_bytes_total{device="roce_eth0",port="1"} 1001`,
		`node_infiniband_port_packets_transmitted_total{device="roce_eth0",port="1"} 1000`,
		`node_infiniband_port_errors_received_total{device="roce_eth0",port="1"} 2029`,
		`node_infiniband_packet_sequence_errors_total{device="roce_eth0",port="1"} 1006`,
		`verbena_lost_pkts_total{device="roce_eth0",port="1"} 1004`,
		`verbena_processes{device="roce_eth0"} 2`,
		`verbena_queue_pairs{device="roce_eth0",state="RTS",type="RC"} 2`,
		`verbena_path_round_trip_seconds{device="roce_eth0",peer="10.0.0.2"} 0.001034`,
		`verbena_path_window_bytes{device="roce_eth0",peer="10.0.0.2"} 2.097152e+06`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// A sum does not fall while a process is missed.
func TestMetricsDoNotFall(t *testing.T) {
	dir, err := os.MkdirTemp("", "vs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	handler := metricsHandler(dir)
	server, err := stats.Serve(dir, "77-1", func() stats.Snapshot {
		return stats.Snapshot{Devices: []stats.Device{{Name: "roce_eth0", Counters: []stats.Counter{{Name: "sent_pkts", Value: 7}}}}}
	}, nil)

	if err != nil {
		t.Fatal(err)
	}
	const want = `node_infiniband_port_packets_transmitted_total{device="roce_eth0",port="1"} 7` + "\n"
	if got := scraped(t, handler); !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
	if err := server.Close(); err != nil { // it leaves nothing
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := scraped(t, handler); !strings.Contains(got, want) {
		t.Errorf("then no %s in\n%s", want, got)
	}
}

// expressions returns the queries of the dashboard, for all devices.
func expressions(t *testing.T) (list []string) {
	t.Helper()
	b, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, x := range p.Targets {
			list = append(list, strings.NewReplacer("$device", ".*", "$__rate_interval", "5s").Replace(x.Expr))
		}
	}
	if len(list) == 0 {
		t.Fatal("the dashboard has no queries")
	}
	return list
}

func TestDashboardShowsMetricsThatThereAre(t *testing.T) {
	got := scraped(t, exported(t))
	name := regexp.MustCompile(`(node_infiniband|verbena)_\w+`)
	for _, x := range expressions(t) {
		for _, m := range name.FindAllString(x, -1) {
			if !strings.Contains(got, "\n"+m+"{") {
				t.Errorf("%s: there is no metric %s", x, m)
			}
		}
	}
}

// Prometheus scrapes the endpoint, and each query of the dashboard has an answer there.
func TestPrometheus(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus in $PATH: make unit downloads it")
	}
	target := httptest.NewServer(exported(t))
	defer target.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("scrape_configs:\n- job_name: verbena\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n  static_configs:\n  - targets: ['%s']\n", strings.TrimPrefix(target.URL, "http://"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := freeport.Free()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address,
		"--web.console.templates="+filepath.Dir(console), "--web.console.libraries="+filepath.Join(filepath.Dir(program), "../share/doc/prometheus/examples/console_libraries"))
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cancel()
	for _, x := range expressions(t) {
		for deadline := time.Now().Add(time.Minute); ; {
			got, err := query(t.Context(), address, x)
			if err == nil && got > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d series, %v; it said\n%s", x, got, err, said.String())
			}
			time.Sleep(100 * time.Millisecond) // it starts, and scrapes
		}
	}
	page, err := get(t.Context(), "http://"+address+"/consoles/"+filepath.Base(console))
	if err != nil || !strings.Contains(string(page), "prom_console.js") {
		t.Errorf("the console is %s, %v", page, err)
	}
}

// get returns the body of an answer.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// query returns the number of series that a query has.
func query(ctx context.Context, address, expr string) (int, error) {
	b, err := get(ctx, "http://"+address+"/api/v1/query?query="+url.QueryEscape(expr))
	if err != nil {
		return 0, err
	}
	var a struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if err := json.Unmarshal(b, &a); err != nil || a.Status != "success" {
		return 0, fmt.Errorf("%v %s", err, b)
	}
	return len(a.Data.Result), nil
}

func TestListenGoesWithNothingElse(t *testing.T) {
	o := options{listen: "127.0.0.1:0", watch: true}
	if err := o.serve(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("%v", err)
	}
	o = options{listen: "nowhere", dir: t.TempDir()}
	if err := o.serve(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "--listen nowhere") {
		t.Errorf("%v", err)
	}
}
