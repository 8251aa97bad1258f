// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"verbena/internal/rstream"
	wire "verbena/internal/wire/rsocket"
)

// dialerOf returns DialContext for a network, whatever its caller names.
func dialerOf(network string) func(ctx context.Context, _, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		return DialContext(ctx, network, address)
	}
}

// ends returns both ends of a stream, which the test's end closes.
func ends(t testing.TB, network string) (a, b *Conn) {
	t.Helper()
	x, y, stop, err := pipe(network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return x.(*Conn), y.(*Conn)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func someBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// Bytes arrive in order, written and read in pieces of all sizes and by all methods, both ways at
// once.
func TestStreams(t *testing.T) {
	want := someBytes(1<<20 + 5)
	writers := []func(c *Conn) error{
		func(c *Conn) error {
			for rest, n := want, 1; len(rest) > 0; n = n*3 + 1 {
				m, err := c.Write(rest[:min(n, len(rest))])
				if rest = rest[m:]; err != nil {
					return err
				}
			}
			return nil
		},
		func(c *Conn) error {
			b := net.Buffers{want[:1], nil, want[1:50], want[50:60], want[60:100_000], want[100_000:], nil}
			n, err := c.WriteBuffers(&b)
			if err == nil && (int(n) != len(want) || len(b) != 0) {
				t.Errorf("%d bytes, %d buffers left", n, len(b))
			}
			return err
		},
		func(c *Conn) error {
			b := net.Buffers{want[:7], want[7:70_000], want[70_000:]}
			_, err := b.WriteTo(c)
			return err
		},
		func(c *Conn) error {
			n, err := io.Copy(c, struct{ io.Reader }{bytes.NewReader(want)})
			if err == nil && int(n) != len(want) {
				t.Errorf("%d bytes", n)
			}
			return err
		},
	}
	readers := []func(c *Conn) ([]byte, error){
		func(c *Conn) ([]byte, error) { return io.ReadAll(struct{ io.Reader }{c}) },
		func(c *Conn) (got []byte, err error) {
			for b := make([]byte, 1000); ; {
				n, err := c.Read(b)
				if got = append(got, b[:n]...); err == io.EOF {
					return got, nil
				} else if err != nil {
					return got, err
				}
			}
		},
		func(c *Conn) ([]byte, error) {
			var b bytes.Buffer
			_, err := io.Copy(&b, struct {
				io.WriterTo
				io.Reader
			}{c, c})
			return b.Bytes(), err
		},
	}
	eachKind(t, func(t *testing.T, network string) {
		for i, write := range writers {
			read := readers[i%len(readers)]
			a, b := ends(t, network)
			var wg sync.WaitGroup
			for _, c := range []*Conn{a, b} {
				wg.Go(func() {
					if err := write(c); err != nil {
						t.Errorf("writer %d: %v", i, err)
					}
					if err := c.CloseWrite(); err != nil {
						t.Errorf("CloseWrite: %v", err)
					}
				})
				wg.Go(func() {
					if got, err := read(c); err != nil || !bytes.Equal(got, want) {
						t.Errorf("writer %d: %d bytes of %d: %v", i, len(got), len(want), err)
					}
				})
			}
			wg.Wait()
		}
	})
}

// The data of an end that closes at once arrive, and then the end.
func TestCloseDeliversWhatWasWritten(t *testing.T) {
	eachKind(t, func(t *testing.T, network string) {
		a, b := ends(t, network)
		want := someBytes(100_000)
		_, err := a.Write(want)
		check(t, err)
		check(t, a.Close())
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %v", len(got), err)
		}
		_, err = b.Write(want)
		wantError(t, err, "write", syscall.ECONNRESET)
		_, err = a.Read(got)
		wantError(t, err, "read", net.ErrClosed)
		wantError(t, a.Close(), "close", net.ErrClosed)
		wantError(t, a.CloseWrite(), "close", net.ErrClosed)
		wantError(t, a.CloseRead(), "close", net.ErrClosed)
		wantError(t, a.SetDeadline(time.Now()), "set", net.ErrClosed)
	})
}

func wantError(t testing.TB, err error, op string, is error) {
	t.Helper()
	var e *net.OpError
	if !errors.As(err, &e) || e.Op != op || !errors.Is(err, is) {
		t.Errorf("%v, want a net.OpError of %q that is %v", err, op, is)
	}
}

// One half is shut, and the other goes on.
func TestHalves(t *testing.T) {
	eachKind(t, func(t *testing.T, network string) {
		a, b := ends(t, network)
		check(t, a.CloseWrite())
		check(t, a.CloseWrite())
		_, err := a.Write([]byte("x"))
		wantError(t, err, "write", syscall.EPIPE)
		if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("read %d, %v", n, err)
		}
		_, err = b.Write([]byte("still"))
		check(t, err)
		got := make([]byte, 9)
		if n, err := a.Read(got); err != nil || string(got[:n]) != "still" {
			t.Errorf("%q, %v", got[:n], err)
		}
		check(t, a.CloseRead())
		if n, err := a.Read(got); n != 0 || err != io.EOF {
			t.Errorf("read %d, %v behind CloseRead", n, err)
		}
	})
}

// A peer that acknowledges nothing holds CloseWrite up until the deadline. A later call shuts the
// half.
func TestCloseWriteHasADeadline(t *testing.T) {
	eachKind(t, func(t *testing.T, network string) {
		a, b := ends(t, network)
		taken := a.takeControlSlots()
		check(t, a.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
		wantError(t, a.CloseWrite(), "close", os.ErrDeadlineExceeded)
		a.mu.Lock()
		a.stream.HandleSent(taken)
		a.mu.Unlock()
		check(t, a.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
		_, err := a.Read(make([]byte, 1))
		wantError(t, err, "read", os.ErrDeadlineExceeded)
		if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("read %d, %v", n, err)
		}
	})
}

// takeControlSlots leaves no work request for a control message, and returns those that it took.
// The stream believes that it has granted memory, and the peer knows nothing of it.
func (c *Conn) takeControlSlots() rstream.Sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := rstream.Sent{Control: true}
	for granted := 2; taken.Slots < rstream.ControlSlots; { // halves
		for ; granted > 0; granted-- {
			c.stream.HandleImmediate(wire.Message{Type: wire.Data, Value: bufferSize / 2}.Uint32())
			c.stream.Consume(bufferSize / 2)
		}
		n, err := c.cq.Poll(c.wc[:]) // the first grant completes
		if err != nil {
			panic(err)
		}
		for i := range n {
			c.complete(&c.wc[i])
		}
		for out := (rstream.Control{}); c.stream.PollControl(&out); {
			taken.Slots += out.Sent.Slots
			if out.HasEntry {
				granted++
			}
		}
	}
	return taken
}

func TestCloseEndsCallsThatWait(t *testing.T) {
	eachKind(t, func(t *testing.T, network string) {
		a, _ := ends(t, network)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := a.Read(make([]byte, 1))
				wantError(t, err, "read", net.ErrClosed)
			})
			wg.Go(func() {
				_, err := a.Write(make([]byte, 1<<20))
				wantError(t, err, "write", net.ErrClosed)
			})
		}
		for a.waiting() < 2 {
			time.Sleep(100 * time.Microsecond)
		}
		check(t, a.Close())
		wg.Wait()
	})
}

// waiting returns how many goroutines wait.
func (c *Conn) waiting() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiters {
		if w.ready != nil {
			n++
		}
	}
	return n
}

func TestDialErrors(t *testing.T) {
	eachKind(t, func(t *testing.T, network string) {
		l := listening(t, network)
		addr := l.Addr()
		if got := addr.Network(); got != network {
			t.Errorf("the listener is of network %q", got)
		}
		check(t, l.Close())
		wantError(t, l.Close(), "close", net.ErrClosed)
		_, err := l.Accept()
		wantError(t, err, "accept", net.ErrClosed)
		_, err = Dial(network, addr.String())
		wantError(t, err, "dial", syscall.ECONNREFUSED)
	})
	_, err := Dial("unix", "127.0.0.1:1")
	wantError(t, err, "dial", net.UnknownNetworkError("unix"))
	_, err = Listen("unix", "127.0.0.1:1")
	wantError(t, err, "listen", net.UnknownNetworkError("unix"))
	_, err = Listen("roce", "192.0.2.1:0")
	wantError(t, err, "listen", syscall.ENODEV)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = DialContext(ctx, "roce", "127.0.0.1:1")
	wantError(t, err, "dial", context.Canceled)
}

// An attempt that takes too long is a time-out, as package net's is.
func TestDialTimesOut(t *testing.T) {
	eachKind(t, func(t *testing.T, network string) {
		ctx, cancel := context.WithDeadline(context.Background(), time.Now())
		defer cancel()
		_, err := DialContext(ctx, network, listening(t, network).Addr().String())
		wantError(t, err, "dial", context.DeadlineExceeded)
		if e := net.Error(nil); !errors.As(err, &e) || !e.Timeout() {
			t.Errorf("%v is no time-out", err)
		}
	})
	for err, want := range map[error]bool{syscall.ETIMEDOUT: true, syscall.ECONNREFUSED: false} {
		if got := os.IsTimeout(timed(errors.Join(err, errNoRsocket))); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// The network's name bounds the addresses of a listener.
func TestListenersOfAFamily(t *testing.T) {
	for _, c := range []struct{ network, address, host, dial string }{
		{"tcp4", ":0", "0.0.0.0", "127.0.0.1"},
		{"tcp4", "localhost:0", "127.0.0.1", "127.0.0.1"},
		{"tcp", ":0", "::", "127.0.0.1"},
		{"tcp6", ":0", "::", "::1"},
		{"tcp6", "[::1]:0", "::1", "::1"},
	} {
		l, err := Listen(c.network, c.address)
		check(t, err)
		host, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil || host != c.host {
			t.Errorf("%s of %s listens to %s", c.address, c.network, l.Addr())
		}
		a, err := Dial(c.network, net.JoinHostPort(c.dial, port))
		check(t, err)
		check(t, a.Close())
		check(t, l.Close())
	}
	for network, address := range map[string]string{"tcp4": "[::1]:0", "tcp6": "127.0.0.1:0"} {
		if l, err := Listen(network, address); err == nil {
			t.Errorf("%s listens to %s", network, l.Addr())
			l.Close()
		}
	}
}

func TestTwoListenersOfAPort(t *testing.T) {
	eachKind(t, func(t *testing.T, network string) {
		l := listening(t, network)
		defer l.Close()
		_, err := Listen(network, l.Addr().String())
		wantError(t, err, "listen", syscall.EADDRINUSE)
	})
}

// A deadline ends a call in the middle. The bytes that were sent count, and the stream goes on.
func TestDeadlineInTheMiddleOfAWrite(t *testing.T) {
	eachKind(t, func(t *testing.T, network string) {
		a, b := ends(t, network)
		want := someBytes(1 << 20)
		check(t, a.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
		n, err := a.Write(want)
		wantError(t, err, "write", os.ErrDeadlineExceeded)
		if n == 0 || n == len(want) {
			t.Errorf("%d bytes were sent", n)
		}
		check(t, a.SetWriteDeadline(time.Time{}))
		go func() {
			if _, err := a.Write(want[n:]); err != nil {
				t.Error(err)
			}
			a.CloseWrite()
		}()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %v", len(got), err)
		}
	})
}

func TestReadAndWriteDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	eachKind(t, func(t *testing.T, network string) {
		a, b := ends(t, network)
		go io.Copy(b, struct{ io.Reader }{b}) // an echo, to the end of a
		for _, size := range []int{64, 3000, 64 << 10} {
			out, in := make([]byte, size), make([]byte, size)
			exchange := func() {
				check(t, a.SetReadDeadline(time.Now().Add(time.Minute)))
				_, err := a.Write(out)
				check(t, err)
				_, err = io.ReadFull(a, in)
				check(t, err)
			}
			for range 100 { // pools and queues reach their sizes
				exchange()
			}
			// Streams of the tests before end in the background, with allocations: try again.
			n := testing.AllocsPerRun(200, exchange)
			for try := 0; n != 0 && try < 10; try++ {
				n = testing.AllocsPerRun(200, exchange)
			}
			if n != 0 {
				t.Errorf("%v allocations for %d bytes there and back", n, size)
			}
		}
	})
}
