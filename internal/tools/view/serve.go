// SPDX-License-Identifier: BSD-2-Clause

package view

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"verbena/internal/timeline"
	"verbena/internal/tools/cli"
)

// checkListen holds --listen to loopback: others must not read a capture.
func checkListen(listen string) error {
	if listen == "" {
		return nil
	}
	a, err := netip.ParseAddrPort(listen)
	if err != nil {
		return cli.Usagef("--listen %s: must be an address and a port, such as 127.0.0.1:0", listen)
	}
	if !a.Addr().IsLoopback() {
		return cli.Usagef("--listen %s: must be a loopback address, such as 127.0.0.1:0", listen)
	}
	return nil
}

// serve serves the page until the context ends. The path has a secret, as other users of the host
// reach loopback too.
func serve(ctx context.Context, out io.Writer, listen string, t *timeline.Timeline) error {
	var page bytes.Buffer
	if err := WritePage(&page, t); err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	path := "/" + rand.Text() + "/"
	server := &http.Server{Handler: handler(path, page.Bytes()),
		ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	fmt.Fprintf(out, "http://%v%s\n", l.Addr(), path)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler answers for one path, and for hosts that name loopback: a page of another site that makes
// its name resolve to loopback gets nothing. The port may differ, as forwarded ones do.
func handler(path string, page []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path || !loopback(r.Host) {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy())
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		w.Write(page)
	})
}

// loopback reports whether a Host header has a loopback address, or localhost, with any port.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.IsLoopback() || strings.EqualFold(host, "localhost")
}
