// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package guest

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// ivshmem is the server that QEMU's ivshmem-doorbell devices connect to: it
// gives each a number, the memory, and eventfds to ring the others and to be
// rung by. Debian has none.
//
// QEMU: docs/specs/ivshmem-spec.txt, "The ivshmem Client-Server Protocol".
type ivshmem struct {
	t      testing.TB
	memory int // memfd

	mu    sync.Mutex
	next  int64
	peers []*ivshmemPeer
}

type ivshmemPeer struct {
	id    int64
	conn  *net.UnixConn
	event int
}

// serveIVSHMEM serves at a path until the test ends.
func serveIVSHMEM(t testing.TB, path string, bytes int) {
	memory, err := unix.MemfdCreate("ivshmem", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(memory, int64(bytes))
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s := &ivshmem{t: t, memory: memory}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			running.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, p := range s.peers {
			p.conn.Close()
		}
		s.mu.Unlock()
		running.Wait()
		unix.Close(memory)
	})
}

// serve has one client until it goes.
func (s *ivshmem) serve(conn *net.UnixConn) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		s.t.Error(err)
		conn.Close()
		return
	}
	p := &ivshmemPeer{conn: conn, event: event}
	s.join(p)
	io.Copy(io.Discard, conn) // says nothing; its end is the guest's
	s.leave(p)
	conn.Close()
	unix.Close(event)
}

const protocolVersion = 0

func (s *ivshmem) join(p *ivshmemPeer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.id = s.next
	s.next++
	p.say(protocolVersion)
	p.say(p.id)
	p.say(-1, s.memory)
	for _, other := range s.peers {
		p.say(other.id, other.event)
		other.say(p.id, p.event)
	}
	p.say(p.id, p.event) // its own, last: it is set up
	s.peers = append(s.peers, p)
}

func (s *ivshmem) leave(p *ivshmemPeer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = slices.DeleteFunc(s.peers, func(x *ivshmemPeer) bool { return x == p })
	for _, other := range s.peers {
		other.say(p.id)
	}
}

// say sends a message. A client that has gone is found out by its reader.
func (p *ivshmemPeer) say(n int64, fds ...int) {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, _ = p.conn.WriteMsgUnix(binary.LittleEndian.AppendUint64(nil, uint64(n)), rights, nil)
}
