// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"verbena/internal/tools/cli"
)

const (
	metricsPath = "/metrics"
	// headerTimeout and mostScrapes bound the time and the answers that clients hold.
	headerTimeout = 5 * time.Second
	mostScrapes   = 4
)

// serve serves the counters of all processes of the user to Prometheus until ctx ends.
func (o *options) serve(ctx context.Context, errOut io.Writer) error {
	if o.filter != (filter{}) || o.peer != "" || o.json || o.watch || o.qps || o.more || o.ended ||
		o.zeros {
		return cli.Usagef("--listen shows everything: it goes with no other option")
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", o.listen, err)
	}
	fmt.Fprintf(errOut, "serving http://%v%s\n", l.Addr(), metricsPath)
	server := &http.Server{Handler: metricsHandler(o.dir), ReadHeaderTimeout: headerTimeout,
		ReadTimeout: headerTimeout, WriteTimeout: 2 * scrapeTimeout, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// metricsHandler answers scrapes.
func metricsHandler(dir string) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{dir: dir, kept: map[string]map[string]uint64{}})
	mux := http.NewServeMux()
	mux.Handle("GET "+metricsPath, promhttp.HandlerFor(registry,
		promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes}))
	return mux
}
