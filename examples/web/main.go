// SPDX-License-Identifier: BSD-2-Clause

// Command web is HTTP over RDMA: net/http serves the files of a folder, and fetches one, as it does
// over TCP. Only the listener and the function that dials differ.
//
//	web -listen 127.0.0.1:7471 -dir .
//	web -connect 127.0.0.1:7471 README.md
//
// A C program under librspreload.so is a client, too:
//
//	LD_PRELOAD=librspreload.so curl http://127.0.0.1:7471/README.md
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"verbena/rsocket"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:7471", "serve at this `address` of this host")
	dir := flag.String("dir", ".", "serve the files of this `folder`")
	connect := flag.String("connect", "", "fetch the files of the arguments from this `address`")
	network := flag.String("network", "roce", "roce, iwarp, trp or ntb")
	flag.Parse()
	var err error
	if *connect != "" {
		err = fetch(*network, *connect, flag.Args())
	} else {
		err = serve(*network, *listen, *dir)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(network, addr, dir string) error {
	l, err := rsocket.Listen(network, addr)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	return http.Serve(l, http.FileServer(http.Dir(dir)))
}

// fetch prints files.
func fetch(network, addr string, files []string) error {
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		return rsocket.DialContext(ctx, network, addr)
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial}}
	defer client.CloseIdleConnections()
	for _, name := range files {
		res, err := client.Get("http://" + addr + "/" + name)
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", name, res.Status)
		}
		_, err = io.Copy(os.Stdout, res.Body)
		res.Body.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
