// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"verbena/internal/monotime"
	"verbena/internal/sys/tcp"
)

// iwarpMeasures are iWARP's and TRP's, the former beside a raw TCP stream and ping-pong of the same
// sizes, by sockets of the same kind: TCP_NODELAY, busy polled.
var iwarpMeasures = []measure{
	{name: "iWARP WRITE 64 KiB, no CRC", unit: "MB/s", beside: "TCP",
		goal: goal{bound: 0.8, atLeast: true, ratio: true},
		ours: overIWARP(writeBandwidth(64<<10), "--no-crc"), raw: tcpStream(64 << 10)},
	{name: "iWARP WRITE 64 KiB, CRC", unit: "MB/s", beside: "TCP",
		goal: goal{bound: 0.6, atLeast: true, ratio: true},
		ours: overIWARP(writeBandwidth(64 << 10)), raw: tcpStream(64 << 10)},
	{name: "iWARP WRITE 1 MiB, no CRC", unit: "MB/s", beside: "TCP",
		goal: goal{bound: 0.8, atLeast: true, ratio: true},
		ours: overIWARP(writeBandwidth(1<<20), "--no-crc"), raw: tcpStream(1 << 20)},
	{name: "iWARP WRITE 1 MiB, CRC", unit: "MB/s", beside: "TCP",
		goal: goal{bound: 0.6, atLeast: true, ratio: true},
		ours: overIWARP(writeBandwidth(1 << 20)), raw: tcpStream(1 << 20)},
	{name: "iWARP SEND 2 B, one way, polling", unit: "µs", beside: "TCP",
		goal: goal{bound: 1.2, ratio: true}, ours: overIWARP(sendLatency()), raw: tcpPing},
	{name: "TRP SEND 2 B, one way, polling", unit: "µs", beside: "sockets", ours: trpSend,
		raw: rawPing},
	{name: "TRP WRITE 64 KiB, 1 % lost, 50 µs one way", unit: "MB/s", beside: "none lost",
		goal: goal{bound: 0.5, atLeast: true, ratio: true}, ours: trpWrite(lan + ",loss=1%"),
		raw: trpWrite(lan)},
}

// overIWARP takes a measure on the device of iWARP of the same interface.
func overIWARP(ours func(context.Context, *run) (float64, error),
	flags ...string) func(context.Context, *run) (float64, error) {
	return func(ctx context.Context, r *run) (float64, error) {
		_, netdev, _ := strings.Cut(r.device, "_")
		over := *r
		over.peer = &peer{self: r.self, verbena: r.verbena, device: "iwarp_" + netdev, host: r.host,
			flags: flags}
		return ours(ctx, &over)
	}
}

// pingBytes is the length of a SEND of 2 bytes in a stream: length, headers, payload,
// pad, CRC.
const pingBytes = 2 + 18 + 2 + 2 + 4

// tcpServer serves one connection.
type tcpServer struct {
	l     *tcp.Listener
	serve func(*tcp.Conn) error
}

func newTCPServer(addr netip.Addr, serve func(*tcp.Conn) error) (*tcpServer, error) {
	l, err := tcp.Listen(netip.AddrPortFrom(addr, 0), 1)
	if err != nil {
		return nil, err
	}
	return &tcpServer{l, serve}, nil
}

func (s *tcpServer) Addr() netip.AddrPort { return s.l.Local() }
func (s *tcpServer) Close() error         { return s.l.Close() }

func (s *tcpServer) Run() error {
	for end := monotime.Now().Add(startTimeout); monotime.Now().Before(end); runtime.Gosched() {
		c, err := s.l.Accept()
		if err != nil {
			return err
		}
		if c != nil {
			return errors.Join(s.serve(c), c.Close())
		}
	}
	return errors.New("no client came")
}

// takeStream reads until the peer is done.
func takeStream(c *tcp.Conn) error {
	var v tcp.Vectors
	buf := [][]byte{make([]byte, mebibyte)}
	for {
		if err := pollRead(c, &v, buf); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// answerPings sends each message back. Their size comes first, in 8 bytes.
func answerPings(c *tcp.Conn) error {
	var v tcp.Vectors
	head := make([]byte, 8)
	if err := pollAll(c, &v, head); err != nil {
		return err
	}
	message := make([]byte, min(binary.BigEndian.Uint64(head), mebibyte))
	for {
		if err := pollAll(c, &v, message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := writeAll(c, &v, message); err != nil {
			return err
		}
	}
}

// yieldPolls is the number of empty polls between offers of the processor to
// others, as package rawbench has it.
const yieldPolls = 64

// pollRead reads something, busy polling.
func pollRead(c *tcp.Conn, v *tcp.Vectors, buf [][]byte) error {
	for empty := 1; ; empty++ {
		if n, err := c.Readv(v, buf); n > 0 || err != nil {
			return err
		}
		if empty%yieldPolls == 0 {
			runtime.Gosched()
		}
	}
}

// pollAll fills b, busy polling. An end within it is io.EOF, too.
func pollAll(c *tcp.Conn, v *tcp.Vectors, b []byte) error {
	for empty := 1; len(b) > 0; empty++ {
		n, err := c.Readv(v, [][]byte{b})
		if err != nil {
			return err
		}
		if b = b[n:]; n == 0 && empty%yieldPolls == 0 {
			runtime.Gosched()
		}
	}
	return nil
}

// writeAll writes b, busy polling.
func writeAll(c *tcp.Conn, v *tcp.Vectors, b []byte) error {
	for len(b) > 0 {
		n, err := c.Writev(v, [][]byte{b})
		if err != nil {
			return err
		}
		if b = b[n:]; n == 0 {
			runtime.Gosched()
		}
	}
	return nil
}

// dialTCP connects to a tcpServer.
func dialTCP(local netip.Addr, to netip.AddrPort) (*tcp.Conn, error) {
	c, err := tcp.Dial(netip.AddrPortFrom(local, 0), to)
	if err != nil {
		return nil, err
	}
	set, err := tcp.NewSet()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	defer set.Close()
	if err = set.Add(c.FD(), 0, tcp.WantWrite); err == nil {
		var ready []tcp.Event
		for end := monotime.Now().Add(startTimeout); len(ready) == 0 && err == nil &&
			monotime.Now().Before(end); runtime.Gosched() {
			ready, err = set.Ready()
		}
	}
	if err == nil {
		err = c.Finish()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// tcpStream measures a stream of messages for a round.
func tcpStream(size int) func(context.Context, *run) (float64, error) {
	return func(ctx context.Context, r *run) (float64, error) {
		return r.tcpStream(ctx, size, monotime.Duration(r.seconds)*monotime.Second)
	}
}

// tcpStream writes messages of a size one after the other, until the peer has
// read the last one, and returns 10^6 bytes a second.
func (r *run) tcpStream(ctx context.Context, size int, span monotime.Duration) (rate float64,
	err error) {
	err = r.raw(ctx, roleTCPStream, func(local netip.Addr, to netip.AddrPort) error {
		c, err := dialTCP(local, to)
		if err != nil {
			return err
		}
		defer c.Close()
		var v tcp.Vectors
		buf, sent := make([]byte, size), 0
		start := monotime.Now()
		for end := start.Add(span); monotime.Now().Before(end); sent += size {
			if err := writeAll(c, &v, buf); err != nil {
				return err
			}
		}
		if err := c.CloseWrite(); err != nil {
			return err
		}
		if err := pollRead(c, &v, [][]byte{buf}); err != io.EOF {
			return errors.New("the server said something: " + strconv.Quote(string(buf[:1])))
		}
		rate = float64(sent) / monotime.Now().Sub(start).Seconds() / 1e6
		return nil
	})
	return rate, err
}

// tcpPing measures round trips of messages as long as a SEND of 2 bytes.
func tcpPing(ctx context.Context, r *run) (float64, error) {
	return r.tcpPing(ctx, pingBytes, r.pings)
}

// tcpPing is the median of half the round trips of messages of a size, of at most 1 MiB, in µs.
func (r *run) tcpPing(ctx context.Context, size, count int) (median float64, err error) {
	err = r.raw(ctx, roleTCPPing, func(local netip.Addr, to netip.AddrPort) error {
		c, err := dialTCP(local, to)
		if err != nil {
			return err
		}
		defer c.Close()
		var v tcp.Vectors
		if err := writeAll(c, &v, binary.BigEndian.AppendUint64(nil, uint64(size))); err != nil {
			return err
		}
		in, out := make([]byte, size), make([]byte, size)
		times := make([]monotime.Duration, 0, count)
		for range count {
			start := monotime.Now()
			if err := writeAll(c, &v, out); err != nil {
				return err
			}
			if err := pollAll(c, &v, in); err != nil {
				return err
			}
			times = append(times, monotime.Now().Sub(start)/2)
		}
		slices.Sort(times)
		median = float64(times[len(times)/2]) / float64(monotime.Microsecond)
		return nil
	})
	return median, err
}
