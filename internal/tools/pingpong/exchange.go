// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"verbena/internal/tools/cli"
)

const (
	doneText = "done\x00"

	// srqSlots is the number of addresses that the shared receive queue's programs exchange,
	// however many queue pairs they use.
	srqSlots = 256
)

var errNotPingpong = errors.New("what answers there is not a pingpong of this kind; run the same " +
	"kind on both sides")

// exchangeClient sends our addresses and returns the peer's.
func exchangeClient(ctx context.Context, conn net.Conn, mine []Address) ([]Address, error) {
	defer cli.CloseWith(ctx, conn)()
	defer bound(conn)()
	if err := sendAddresses(conn, mine); err != nil {
		return nil, exchangeError(ctx, err)
	}
	theirs, err := receiveAddresses(conn, len(mine))
	if err != nil {
		return nil, exchangeError(ctx, err)
	}
	if _, err := io.WriteString(conn, doneText); err != nil {
		return nil, exchangeError(ctx, err)
	}
	return theirs, nil
}

// exchangeServer receives the peer's addresses, connects to them and then
// answers with ours: the client may send as soon as it has them.
func exchangeServer(ctx context.Context, conn net.Conn, mine []Address,
	connect func(theirs []Address) error) ([]Address, error) {
	defer cli.CloseWith(ctx, conn)()
	defer bound(conn)()
	theirs, err := receiveAddresses(conn, len(mine))
	if err != nil {
		return nil, exchangeError(ctx, err)
	}
	if err := connect(theirs); err != nil {
		return nil, err
	}
	if err := sendAddresses(conn, mine); err != nil {
		return nil, exchangeError(ctx, err)
	}
	done := make([]byte, len(doneText))
	if _, err := io.ReadFull(conn, done); err != nil {
		return nil, exchangeError(ctx, err)
	}
	return theirs, nil
}

// bound bounds an exchange, until the function returned is called.
func bound(conn net.Conn) func() {
	_ = conn.SetDeadline(time.Now().Add(cli.AnswerTimeout)) // a connection that is gone says so
	return func() { _ = conn.SetDeadline(time.Time{}) }
}

func sendAddresses(conn net.Conn, list []Address) error {
	b := make([]byte, 0, len(list)*addressBytes)
	for _, a := range list {
		b = a.Append(b)
	}
	_, err := conn.Write(b)
	return err
}

func receiveAddresses(conn net.Conn, n int) ([]Address, error) {
	b := make([]byte, n*addressBytes)
	if _, err := io.ReadFull(conn, b); err != nil {
		return nil, err
	}
	list := make([]Address, n)
	for i := range list {
		var ok bool
		if list[i], ok = ParseAddress(b[i*addressBytes : (i+1)*addressBytes]); !ok {
			return nil, errNotPingpong
		}
	}
	return list, nil
}

// exchangeError explains a failed exchange.
func exchangeError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return cli.ErrSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the peer hung up while addresses were exchanged; see its message: it " +
			"may have been stopped, or run another kind")
	}
	return err
}
