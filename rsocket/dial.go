// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"verbena/rdmacm"
)

// Dial connects to an address: net.Dial. The result is a *Conn, or a *PacketConn if the network is
// udp, udp4 or udp6.
func Dial(network, address string) (net.Conn, error) {
	return DialContext(context.Background(), network, address)
}

// DialContext connects to an address, as net.Dialer's method does: a function for http.Transport.
// ctx bounds the attempt. The addresses of a host's name are tried one after the other; a socket of
// datagrams takes the first. The result is that of Dial.
//
// Errors: a *net.OpError. It wraps ECONNREFUSED if the address has no listener, ETIMEDOUT if
// nothing answers, ctx's error, or that of the name's look-up. Its Timeout reports whether time is
// up.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if strings.HasPrefix(network, "udp") {
		c, err := dialPacket(ctx, network, address)
		if err != nil {
			return nil, opError("dial", network, nil, nil, timed(err))
		}
		return c, nil
	}
	n, err := parseNetwork(network)
	if err != nil {
		return nil, opError("dial", network, nil, nil, err)
	}
	addrs, err := n.lookup(ctx, address, "localhost")
	if err != nil {
		return nil, opError("dial", network, nil, nil, err)
	}
	var errs []error
	for _, a := range addrs {
		c, err := dial(ctx, n.kind, a)
		if err == nil {
			return c, nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	if len(errs) > 1 {
		err = errors.Join(errs...)
	} else {
		err = errs[0]
	}
	return nil, opError("dial", network, nil, &Addr{n.kind, addrs[len(errs)-1]}, timed(err))
}

// lookup returns the addresses of "host:port", at least one. empty stands for an empty host.
func (n network) lookup(ctx context.Context, address, empty string) (addrs []netip.AddrPort,
	err error) {

	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = empty
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, n.ip, host)
	if err != nil {
		return nil, err
	}
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
	}
	return addrs, nil
}

func dial(ctx context.Context, kind rdmacm.Kind, to netip.AddrPort) (*Conn, error) {
	c := newConn(kind)
	cm, err := rdmacm.Dial(ctx, to.String(), c.options())
	if err != nil {
		return nil, err
	}
	peer, ok := parsePeer(cm.PrivateData)
	if !ok {
		return nil, errors.Join(errNoRsocket, cm.Close())
	}
	c.start(cm, peer)
	return c, nil
}
