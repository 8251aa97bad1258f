// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"cmp"
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// kinds are the networks that are tested, hosts their addresses where it is not the loopback one.
var (
	kinds = []string{"roce", "trp"}
	hosts = map[string]string{}
)

// listen listens to a port that the system chooses.
func listen(network string) (net.Listener, error) {
	return Listen(network, net.JoinHostPort(cmp.Or(hosts[network], "127.0.0.1"), "0"))
}

// pipe returns both ends of a stream.
func pipe(network string) (a, b net.Conn, stop func(), err error) {
	l, err := listen(network)
	if err != nil {
		return nil, nil, nil, err
	}
	defer l.Close()
	if a, err = Dial(network, l.Addr().String()); err != nil {
		return nil, nil, nil, err
	}
	if b, err = l.Accept(); err != nil {
		return nil, nil, nil, err
	}
	return a, b, func() { a.Close(); b.Close() }, nil
}

func TestConn(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) { return pipe(kind) })
		})
	}
}
