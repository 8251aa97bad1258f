// SPDX-License-Identifier: BSD-2-Clause

package requests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"verbena/rdmacm"
	"verbena/rsocket"
)

const requestBytes = 64

// side is one process of a load.
type side struct {
	addr    string
	value   int // bytes of an answer
	clients int // connections
	depth   int // outstanding requests of each
	length  time.Duration
	in      *bufio.Reader
	out     io.Writer
	streams streams
	kind    rdmacm.Kind // of the devices that verbs use
}

// streams makes streams: package net, or package rsocket.
type streams struct {
	listen func(network, address string) (net.Listener, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

var (
	overTCP     = streams{net.Listen, (&net.Dialer{}).DialContext}
	overRsocket = streams{rsocket.Listen, rsocket.DialContext}
)

// Run is the process that args describe: how, which side, address, port, value,
// clients, depth, seconds. Verbs are named by their devices' kind.
func Run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var numbers [3]int
	for i := range numbers {
		n, err := strconv.Atoi(args[4+i])
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no number", args[4+i])
		}
		numbers[i] = n
	}
	length, err := time.ParseDuration(args[7] + "s")
	if err != nil {
		return err
	}
	s := &side{addr: args[2] + ":" + args[3], value: numbers[0], clients: numbers[1],
		depth: numbers[2], length: length, in: bufio.NewReader(in), out: out, streams: overTCP,
		kind: rdmacm.Kind(args[0])}
	if strings.HasSuffix(args[0], "rsocket") {
		s.streams = overRsocket
	}
	switch args[0] + " " + args[1] {
	case "tcp server", "rsocket server":
		return s.serveStreams()
	case "tcp client", "rsocket client":
		return s.askByStreams(ctx)
	case "http server", "http-rsocket server":
		return s.serveHTTP()
	case "http client", "http-rsocket client":
		return s.askHTTP(ctx)
	case "roce server", "iwarp server":
		return s.serveVerbs(ctx)
	case "roce client", "iwarp client":
		return s.askVerbs(ctx)
	}
	return fmt.Errorf("there is no %s %s", args[0], args[1])
}

func (s *side) say(word string, count int64, d time.Duration) {
	fmt.Fprintln(s.out, word, count, d.Seconds())
}

// await waits for a line of the caller's.
func (s *side) await() error {
	_, err := s.in.ReadString('\n')
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
