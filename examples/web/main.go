// SPDX-License-Identifier: BSD-2-Clause

// Command web is HTTP over RDMA: net/http serves the files of a folder, and fetches one, as it does
// over TCP. Only the listener and the function that dials differ.
//
//	web -listen 127.0.0.1:7471 -dir .
//	web -connect 127.0.0.1:7471 README.md
//
// With a certificate it is HTTPS, by HTTP/2. The client is given the certificate, too:
//
//	web -listen 127.0.0.1:7471 -dir . -cert cert.pem -key key.pem
//	web -connect 127.0.0.1:7471 -cert cert.pem README.md
//
// A C program under librspreload.so is a client, too:
//
//	LD_PRELOAD=librspreload.so curl http://127.0.0.1:7471/README.md
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	cert := flag.String("cert", "", "the server's certificate: a PEM `file`")
	key := flag.String("key", "", "the key of the certificate: a PEM `file`")
	flag.Parse()
	var err error
	if *connect != "" {
		err = fetch(*network, *connect, *cert, flag.Args())
	} else {
		err = serve(*network, *listen, *dir, *cert, *key)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(network, addr, dir, cert, key string) error {
	l, err := rsocket.Listen(network, addr)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	files := http.FileServer(http.Dir(dir))
	if cert != "" {
		return http.ServeTLS(l, files, cert, key)
	}
	return http.Serve(l, files)
}

// trust returns a client's configuration of TLS that trusts one certificate.
func trust(cert string) (*tls.Config, error) {
	pem, err := os.ReadFile(cert)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate", cert)
	}
	return &tls.Config{RootCAs: pool}, nil
}

// fetch prints files.
func fetch(network, addr, cert string, files []string) error {
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		return rsocket.DialContext(ctx, network, addr)
	}
	transport, scheme := &http.Transport{DialContext: dial, ForceAttemptHTTP2: true}, "http"
	if cert != "" {
		config, err := trust(cert)
		if err != nil {
			return err
		}
		transport.TLSClientConfig, scheme = config, "https"
	}
	client := http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	for _, name := range files {
		res, err := client.Get(scheme + "://" + addr + "/" + name)
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
