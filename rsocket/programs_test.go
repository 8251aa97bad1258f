// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/rpc"
	"testing"
)

// eachKind runs a test over each kind of devices.
func eachKind(t *testing.T, test func(t *testing.T, network string)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

func listening(t *testing.T, network string) net.Listener {
	t.Helper()
	l, err := listen(network)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestHTTP posts and gets bodies by HTTP/1.1 and by HTTP/2 over TLS.
func TestHTTP(t *testing.T) {
	eachKind(t, func(t *testing.T, network string) {
		for _, secure := range []bool{false, true} {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Proto", r.Proto)
				if _, err := io.Copy(w, r.Body); err != nil {
					t.Error(err)
				}
			}))
			srv.Listener.Close()
			srv.Listener = listening(t, network)
			want := "HTTP/1.1"
			if secure {
				want, srv.EnableHTTP2 = "HTTP/2.0", true
				srv.StartTLS()
			} else {
				srv.Start()
			}
			client := srv.Client()
			transport := client.Transport.(*http.Transport)
			transport.DialContext = dialerOf(network)
			if secure {
				transport.TLSClientConfig.ServerName = "example.com" // of httptest's certificate
			}
			url := srv.URL // of the listener's address
			body := bytes.Repeat([]byte("0123456789"), 50_000)
			for _, size := range []int{0, 1, 100, len(body)} {
				res, err := client.Post(url, "text/plain", bytes.NewReader(body[:size]))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if proto := res.Header.Get("Proto"); err != nil || !bytes.Equal(got, body[:size]) || proto != want {
					t.Errorf("%d bytes of %d by %s: %v", len(got), size, proto, err)
				}
			}
			transport.CloseIdleConnections()
			srv.Close()
		}
	})
}

// Text is a service of net/rpc.
type Text struct{}

// Reverse is its method.
func (Text) Reverse(in []byte, out *[]byte) error {
	for i := range in {
		*out = append(*out, in[len(in)-1-i])
	}
	return nil
}

func TestRPC(t *testing.T) {
	eachKind(t, func(t *testing.T, network string) {
		srv := rpc.NewServer()
		if err := srv.Register(Text{}); err != nil {
			t.Fatal(err)
		}
		l := listening(t, network)
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				srv.ServeConn(c)
			}
		}()
		c, err := Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		client := rpc.NewClient(c)
		defer client.Close()
		for range 100 {
			var out []byte
			if err := client.Call("Text.Reverse", []byte("stressed"), &out); err != nil || string(out) != "desserts" {
				t.Fatalf("%q, %v", out, err)
			}
		}
	})
}
