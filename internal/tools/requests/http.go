// SPDX-License-Identifier: BSD-2-Clause

package requests

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// serveHTTP answers by net/http until the clients have left.
func (s *side) serveHTTP() error {
	l, err := s.streams.listen("tcp", s.addr)
	if err != nil {
		return err
	}
	answer, left := make([]byte, s.value), make(chan struct{}, s.clients)
	srv := http.Server{ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			left <- struct{}{}
		}
	}, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // the client may have left
	})}
	defer srv.Close()
	go srv.Serve(l)
	s.say("ready", 0, 0)
	for range s.clients {
		<-left
	}
	return nil
}

// askHTTP is a number of clients with a connection each.
func (s *side) askHTTP(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clients := make([]http.Client, s.clients)
	start := time.Now()
	for i := range clients {
		c, err := s.streams.dial(ctx, "tcp", s.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		conns := make(chan net.Conn, 1)
		conns <- c
		clients[i].Transport = &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				select {
				case c := <-conns:
					return c, nil
				default:
					return nil, errors.New("the server has closed the connection")
				}
			},
		}
	}
	s.say("connected", int64(s.clients), time.Since(start))
	if err := s.await(); err != nil {
		return err
	}
	var answers atomic.Int64
	failed := make(chan error, s.clients)
	start = time.Now()
	for i := range clients {
		go func() {
			for {
				if err := ask(ctx, &clients[i], "http://"+s.addr, s.value); err != nil {
					failed <- err
					return
				}
				answers.Add(1)
			}
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

func ask(ctx context.Context, client *http.Client, url string, want int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && int(n) != want {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, res.Body.Close())
}
