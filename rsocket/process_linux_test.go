// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"verbena/internal/testkit/childproc"
)

// runChild is the main function of a child: "many", or the network of a peer.
func runChild(child string) int {
	err := error(nil)
	if child == "many" {
		err = manyStreams()
	} else {
		err = servePeer(child)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, child, err)
		return 1
	}
	return 0
}

// servePeer takes a stream, sends greeting, and counts the bytes that it reads.
func servePeer(network string) error {
	l, err := Listen(network, "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	c, err := l.Accept()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c, greeting); err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, c)
	if err == nil {
		err = c.Close()
	}
	fmt.Println(n)
	io.Copy(io.Discard, os.Stdin)
	return err
}

const greeting = "here I am"

// peerProcess is a child, and the stream to it.
type peerProcess struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
	c   net.Conn
}

func startPeer(t *testing.T, network string) *peerProcess {
	t.Helper()
	p := &peerProcess{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), childEnv+"="+network)
	in, out := childproc.Start(t, p.cmd)
	p.in, p.out = in, bufio.NewReader(out)
	p.c = must(Dial(network, p.line(t)))
	t.Cleanup(func() { p.c.Close() })
	b := make([]byte, len(greeting))
	if _, err := io.ReadFull(p.c, b); err != nil || string(b) != greeting {
		t.Fatalf("%q, %v", b, err)
	}
	return p
}

func (p *peerProcess) line(t *testing.T) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

// betweenProcesses are the networks on which the end of a process ends its streams.
var betweenProcesses = []string{"roce", "iwarp"}

// A peer that is killed has not closed its stream: what it sent may be incomplete.
func TestKilledPeer(t *testing.T) {
	for _, network := range betweenProcesses {
		t.Run(network, func(t *testing.T) {
			p := startPeer(t, network)
			go func() {
				p.cmd.Process.Kill()
				p.cmd.Wait()
			}()
			_, err := p.c.Read(make([]byte, 1))
			wantError(t, err, "read", syscall.ECONNRESET)
			_, err = p.c.Write(make([]byte, 1))
			wantError(t, err, "write", syscall.ECONNRESET)
			check(t, p.c.Close())
		})
	}
}

// TRP has no stream that ends. A process that writes finds out, by ICMP or by silence.
func TestKilledPeerOverTRP(t *testing.T) {
	p := startPeer(t, "trp")
	check(t, p.cmd.Process.Kill())
	p.cmd.Wait()
	check(t, p.c.SetDeadline(time.Now().Add(100*time.Second)))
	var err error
	for err == nil {
		_, err = p.c.Write(make([]byte, 1000))
	}
	var e *net.OpError
	if !errors.As(err, &e) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// A stopped peer costs time: a deadline ends a Write in the middle, and the stream goes on when the
// peer does.
func TestStoppedPeer(t *testing.T) {
	for _, network := range betweenProcesses {
		t.Run(network, func(t *testing.T) {
			p := startPeer(t, network)
			check(t, p.cmd.Process.Signal(syscall.SIGSTOP))
			check(t, p.c.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
			want := 4 << 20
			n, err := p.c.Write(make([]byte, want))
			wantError(t, err, "write", os.ErrDeadlineExceeded)
			check(t, p.c.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
			_, err = p.c.Read(make([]byte, 1))
			wantError(t, err, "read", os.ErrDeadlineExceeded)
			check(t, p.cmd.Process.Signal(syscall.SIGCONT))
			check(t, p.c.SetDeadline(time.Time{}))
			_, err = p.c.Write(make([]byte, want-n))
			check(t, err)
			check(t, p.c.Close())
			if got := p.line(t); got != fmt.Sprint(want) {
				t.Errorf("the peer has read %s bytes of %d", got, want)
			}
			check(t, p.in.Close())
			check(t, p.cmd.Wait())
		})
	}
}

// A process with few descriptors has many streams over RoCE.
func TestManyStreamsWithFewDescriptors(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=many")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func manyStreams() error {
	const streams, descriptors = 1000, 256
	limit := syscall.Rlimit{Cur: descriptors, Max: descriptors}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	l, err := Listen("roce", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	var wg sync.WaitGroup
	errs := make(chan error, streams)
	open := make(chan struct{}, 32) // attempts at once
	var all sync.WaitGroup          // are connected
	all.Add(streams)
	for i := range streams {
		wg.Go(func() { errs <- stream(l.Addr().String(), byte(i), open, &all) })
	}
	wg.Wait()
	for range streams {
		if err := <-errs; err != nil {
			return err
		}
	}
	return l.Close()
}

// stream exchanges bytes on a stream while all the others are there.
func stream(addr string, with byte, open chan struct{}, all *sync.WaitGroup) error {
	open <- struct{}{}
	c, err := Dial("roce", addr)
	<-open
	all.Done()
	if err != nil {
		return err
	}
	defer c.Close()
	all.Wait()
	out, in := make([]byte, 100), make([]byte, 100)
	for i := range byte(10) {
		out[50] = with + i
		if _, err := c.Write(out); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, in); err != nil {
			return err
		}
		if in[50] != out[50] {
			return fmt.Errorf("%d instead of %d", in[50], out[50])
		}
	}
	return nil
}
