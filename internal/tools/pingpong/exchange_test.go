// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"verbena/ib"
	"verbena/internal/tools/cli"
)

func slots(n int, first ib.QPN) []Address {
	list := make([]Address, n)
	for i := range list {
		list[i] = Address{QPN: first + ib.QPN(i), PSN: ib.PSN(i), GID: ib.GID{15: byte(i)}}
	}
	return list
}

func TestExchangeGivesEachSideTheOthers(t *testing.T) {
	for _, n := range []int{1, srqSlots} {
		server, client := net.Pipe()
		mine, theirs := slots(n, 0x100), slots(n, 0x800)
		type result struct {
			got []Address
			err error
		}
		done := make(chan result)
		connected := false
		go func() {
			got, err := exchangeServer(t.Context(), server, theirs, func(list []Address) error {
				connected = slices.Equal(list, mine)
				return nil
			})
			done <- result{got, err}
		}()
		got, err := exchangeClient(t.Context(), client, mine)
		if err != nil || !slices.Equal(got, theirs) {
			t.Errorf("client got %d addresses, %v", len(got), err)
		}
		if r := <-done; r.err != nil || !slices.Equal(r.got, mine) || !connected {
			t.Errorf("server got %d addresses, %v, connected %v", len(r.got), r.err, connected)
		}
	}
}

func TestServerThatCannotConnectDoesNotAnswer(t *testing.T) {
	server, client := net.Pipe()
	refused := errors.New("refused")
	done := make(chan error)
	go func() {
		_, err := exchangeServer(t.Context(), server, slots(1, 1), func([]Address) error { return refused })
		server.Close()
		done <- err
	}()
	if _, err := exchangeClient(t.Context(), client, slots(1, 2)); err == nil {
		t.Error("the client did not notice")
	}
	if err := <-done; err != refused {
		t.Errorf("server: %v", err)
	}
}

func TestExchangeNamesAStranger(t *testing.T) {
	server, client := net.Pipe()
	go func() {
		io.WriteString(client, "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: test\r\n\r\n")
		client.Close()
	}()
	if _, err := exchangeServer(t.Context(), server, slots(1, 1), nil); err != errNotPingpong {
		t.Errorf("error %v", err)
	}
}

func TestExchangeWithASilentPeerEnds(t *testing.T) {
	for name, exchange := range map[string]func(context.Context, net.Conn) ([]Address, error){
		"client": func(ctx context.Context, c net.Conn) ([]Address, error) { return exchangeClient(ctx, c, slots(1, 1)) },
		"server": func(ctx context.Context, c net.Conn) ([]Address, error) {
			return exchangeServer(ctx, c, slots(1, 1), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				go io.Copy(io.Discard, there)
				defer there.Close()
				if _, err := exchange(t.Context(), here); err != cli.ErrSilent {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

func TestExchangeEndsWithItsContext(t *testing.T) {
	server, _ := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := exchangeServer(ctx, server, slots(1, 1), nil); err != context.Canceled {
		t.Errorf("error %v", err)
	}
}
