// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"verbena/internal/tools/cli"
)

// control is the TCP connection between the sides.
type control struct {
	conn net.Conn
	in   *bufio.Scanner
}

func newControl(conn net.Conn) *control {
	in := bufio.NewScanner(&opening{conn: conn})
	in.Buffer(nil, maxLineBytes)
	return &control{conn: conn, in: in}
}

func (c *control) send(m *Message) error {
	line, err := AppendMessage(nil, m)
	if err != nil {
		return err
	}
	_, err = c.conn.Write(line)
	return err
}

var errPeerGone = errors.New("the peer hung up; see its message")

// receive returns the next message. An error that the peer reports is an error
// here.
func (c *control) receive() (*Message, error) {
	if !c.in.Scan() {
		var other *strangerError
		if err := c.in.Err(); errors.As(err, &other) {
			return nil, other
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, cli.ErrSilent
		} else if err != nil {
			return nil, fmt.Errorf("%w (%v)", errPeerGone, err)
		}
		return nil, errPeerGone
	}
	m, err := ParseMessage(c.in.Bytes())
	if err != nil {
		return nil, err
	}
	if m.Kind == kindError {
		return nil, fmt.Errorf("the peer says: %s", m.Error)
	}
	return m, nil
}

// expect returns the next message, which must be of that kind.
func (c *control) expect(kind string) (*Message, error) {
	m, err := c.receive()
	if err == nil && m.Kind != kind {
		err = fmt.Errorf("the peer sent %q where %q was due", m.Kind, kind)
	}
	return m, err
}

// first is expect for a message that must come at once.
func (c *control) first(kind string) (*Message, error) {
	// a connection that is gone says so
	_ = c.conn.SetReadDeadline(time.Now().Add(cli.AnswerTimeout))
	defer c.conn.SetReadDeadline(time.Time{})
	return c.expect(kind)
}

// refuse sends the peer the reason for which the run ends, and returns err.
func (c *control) refuse(err error) error {
	_ = c.send(&Message{Kind: kindError, Error: err.Error()}) // the peer may be gone
	return err
}

// closeWith closes the connection when ctx ends.
func (c *control) closeWith(ctx context.Context) func() bool { return cli.CloseWith(ctx, c.conn) }

// watch receives one message in the background while a loop measures. The
// context it returns ends when the message is there, or an error.
func (c *control) watch(ctx context.Context) *watch {
	w := &watch{done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(ctx)
	go func() {
		w.message, w.err = c.expect(kindDone)
		close(w.done) // before the context ends, so that its error is there to be read
		w.cancel()
	}()
	return w
}

// watch waits for the peer's "done".
type watch struct {
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}
	message *Message // after done
	err     error    // after done
}

// wait returns the peer's message.
func (w *watch) wait() (*Message, error) {
	<-w.done
	w.cancel()
	return w.message, w.err
}

// failed returns the error that ended the watch early, if any.
func (w *watch) failed() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}
