// SPDX-License-Identifier: BSD-2-Clause

package rsocket_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/rpc"
	"strings"

	"verbena/rsocket"
)

// HTTP/2 and crypto/tls over RDMA: the server of package httptest is given a Listener.
func ExampleListen_tls() {
	l, err := rsocket.Listen("roce", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, ", encrypted: ", r.TLS != nil)
	}))
	srv.Listener.Close()
	srv.Listener, srv.EnableHTTP2 = l, true
	srv.StartTLS()
	defer srv.Close()

	client := srv.Client() // knows the server's certificate
	client.Transport.(*http.Transport).DialContext = rsocket.DialContext
	res, err := client.Get(srv.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	fmt.Printf("%s %v\n", body, err)
	// Output: HTTP/2.0, encrypted: true <nil>
}

// Words is a service of net/rpc.
type Words struct{}

// Upper is its method.
func (Words) Upper(in string, out *string) error {
	*out = strings.ToUpper(in)
	return nil
}

// Package net/rpc over RDMA.
func ExampleListen_rpc() {
	l, err := rsocket.Listen("roce", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	srv := rpc.NewServer()
	if err := srv.Register(Words{}); err != nil {
		log.Fatal(err)
	}
	go srv.Accept(l)

	c, err := rsocket.Dial("roce", l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	client := rpc.NewClient(c)
	defer client.Close()
	var answer string
	err = client.Call("Words.Upper", "hello", &answer)
	fmt.Println(answer, err)
	// Output: HELLO <nil>
}
