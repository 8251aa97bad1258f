// SPDX-License-Identifier: BSD-2-Clause

package requests

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

const chunkBytes = 256 << 10

// turn reads messages of a size and calls each with the number that a read has made
// whole, until the stream ends.
func turn(c net.Conn, size int, each func(whole int) error) error {
	buf, part := make([]byte, chunkBytes), 0
	for {
		n, err := c.Read(buf)
		part += n
		if whole := part / size; err == nil && whole > 0 {
			part %= size
			err = each(whole)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) { // the client left
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// repeat writes a message count times.
func repeat(c net.Conn, chunk []byte, size, count int) error {
	for most := len(chunk) / size; count > 0; count -= most {
		if _, err := c.Write(chunk[:min(count, most)*size]); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) serveStreams() error {
	l, err := s.streams.listen("tcp", s.addr)
	if err != nil {
		return err
	}
	defer l.Close()
	s.say("ready", 0, 0)
	answers, left := make([]byte, max(chunkBytes, s.value)), make(chan error)
	for range s.clients {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			left <- turn(c, requestBytes, func(whole int) error {
				return repeat(c, answers, s.value, whole)
			})
		}()
	}
	for range s.clients {
		if err := <-left; err != nil {
			return err
		}
	}
	return nil
}

func (s *side) askByStreams(ctx context.Context) error {
	var conns []net.Conn
	start := time.Now()
	for range s.clients {
		c, err := s.streams.dial(ctx, "tcp", s.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		conns = append(conns, c)
	}
	s.say("connected", int64(s.clients), time.Since(start))
	if err := s.await(); err != nil {
		return err
	}
	var answers atomic.Int64
	failed, requests := make(chan error, s.clients), make([]byte, chunkBytes)
	start = time.Now()
	for _, c := range conns {
		go func() {
			err := repeat(c, requests, requestBytes, s.depth)
			if err == nil {
				err = turn(c, s.value, func(whole int) error {
					answers.Add(int64(whole))
					return repeat(c, requests, requestBytes, whole)
				})
			}
			failed <- errors.Join(err, io.ErrUnexpectedEOF)
		}()
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(s.length):
	}
	s.say("answered", answers.Load(), time.Since(start))
	return s.await()
}
