// SPDX-License-Identifier: BSD-2-Clause

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// ConnectTimeout bounds a client's wait for its peer: the TCP port, or the
// answer of its connection manager, which alone would ask for over a minute.
const ConnectTimeout = 10 * time.Second

// AnswerTimeout bounds the wait for the first words over a connection. Programs of this kind speak
// at once, or after the second that perftest's sleep. But where the network loses packets TCP
// repeats the words after three seconds, and after nine, if it had to repeat its SYN.
//
// Source: RFC 6298, rule 5.7.
const AnswerTimeout = 10 * time.Second

// ErrSilent is the end of that wait.
var ErrSilent = fmt.Errorf("the peer takes the connection and says nothing for %v: it is another "+
	"program, or stopped; run the same on both sides", AnswerTimeout)

// Dial connects to the TCP port of a waiting peer; start is the command that
// should run there.
func Dial(ctx context.Context, host string, port int, start string) (net.Conn, error) {
	d := net.Dialer{Timeout: ConnectTimeout}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	var unknown *net.DNSError
	if errors.As(err, &unknown) {
		return nil, fmt.Errorf("there is no host %s: give an IP address or a name that resolves",
			host)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot reach %s port %d (%w); start '%s' there first", host, port,
			cause(err), start)
	}
	return conn, nil
}

// Listen opens a TCP port.
func Listen(ctx context.Context, port int) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on TCP port %d (%w); choose another with --port",
			port, cause(err))
	}
	return l, nil
}

// Accept waits for one peer, until ctx ends.
func Accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	conn, err := l.Accept()
	if ctx.Err() != nil {
		if conn != nil {
			conn.Close()
		}
		return nil, ctx.Err()
	}
	return conn, err
}

// CloseWith closes conn when ctx ends, so that reads and writes of it return.
// The function returned undoes that.
func CloseWith(ctx context.Context, conn net.Conn) (undo func() bool) {
	return context.AfterFunc(ctx, func() { conn.Close() })
}

// cause strips the text that net puts around the reason: the message names the address already.
func cause(err error) error {
	if op, ok := err.(*net.OpError); ok {
		return op.Err
	}
	return err
}
