// SPDX-License-Identifier: BSD-2-Clause

package rsocket_test

import (
	"fmt"
	"io"
	"log"
	"net/http"

	"verbena/rsocket"
)

// An echo, as one writes it over TCP.
func Example() {
	l, err := rsocket.Listen("roce", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c)
	}()

	c, err := rsocket.Dial("roce", l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "hello, rsocket")
	c.(*rsocket.Conn).CloseWrite()
	answer, err := io.ReadAll(c)
	fmt.Printf("%s %v\n", answer, err)
	// Output: hello, rsocket <nil>
}

// HTTP over RDMA: net/http is given a Listener and a function that dials.
func ExampleDialContext() {
	l, err := rsocket.Listen("roce", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s by %s", r.URL.Path, r.Proto)
	})}
	defer srv.Close()
	go srv.Serve(l)

	client := http.Client{Transport: &http.Transport{DialContext: rsocket.DialContext}}
	defer client.CloseIdleConnections()
	res, err := client.Get("http://" + l.Addr().String() + "/page")
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	fmt.Printf("%s %v\n", body, err)
	// Output: /page by HTTP/1.1 <nil>
}
