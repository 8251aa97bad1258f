// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
)

// portVar is the port of the other process, if it is not ntbPort.
const portVar = "VERBENA_RDMACM_PORT"

func otherPort() uint16 {
	var n uint16
	if _, err := fmt.Sscan(os.Getenv(portVar), &n); err != nil {
		return ntbPort
	}
	return n
}

func startOtherAt(t *testing.T, role, link string, port uint16) *other {
	t.Setenv(portVar, fmt.Sprint(port))
	return startOther(t, role, link)
}

// Several processes of one side listen, each for ports of its own: requests find the one that
// listens. A request goes to no other process. When a process is killed its connections end and the
// others' go on.
func TestNTBManyListeners(t *testing.T) {
	at := filepath.Join(t.TempDir(), "place")
	s, c := "10.99.0.1+10.99.0.2=shm:s:"+at, "10.99.0.1+10.99.0.2=shm:c:"+at
	joinLinks(t, c)
	var others []*other
	const first = 7500
	for i := range uint16(3) {
		o := startOtherAt(t, "accept", s, first+i)
		o.says("listening")
		others = append(others, o)
	}
	again := startOtherAt(t, "accept", s, first+1)
	again.fails("address already in use")
	f := newFabric(t)
	p := f.process(1)
	var clients []*equipped
	for i := range uint16(3) {
		client := p.resolvedOf(NTB, netip.AddrPortFrom(ntbClient, first+i))
		check(t, client.Connect(&someParam))
		client.want(Established)
		others[i].says("asked")
		clients = append(clients, client)
	}
	others[1].kill()
	clients[1].want(Disconnected)
	clients[1].wantFlushed()
	gone := p.resolvedOf(NTB, netip.AddrPortFrom(ntbClient, first+1))
	check(t, gone.Connect(&someParam))
	var re *RejectedError
	if ev := gone.want(Rejected); !errors.As(ev.Err, &re) || re.Reason != RejectNoListener {
		t.Errorf("rejected with %v", ev.Err)
	}
	next := startOtherAt(t, "accept", s, first+1)
	next.says("listening")
	client := p.resolvedOf(NTB, netip.AddrPortFrom(ntbClient, first+1))
	check(t, client.Connect(&someParam))
	client.want(Established)
	for _, i := range []int{0, 2} {
		if s := clients[i].QP().State(); s != ib.QPRTS {
			t.Errorf("the connection with process %d is in %v", i, s)
		}
		others[i].kill()
		clients[i].want(Disconnected)
	}
}

// fails waits for the other process to end, with an error that has these words.
func (o *other) fails(words string) {
	o.t.Helper()
	if !o.lines.Scan() || !strings.Contains(o.lines.Text(), words) {
		o.t.Fatalf("the other process says %q, want that %s", o.lines.Text(), words)
	}
}

// Processes of one side connect to each other, and a process to itself.
func TestNTBOwnSide(t *testing.T) {
	at := "10.99.0.1+10.99.0.2=shm:s:" + filepath.Join(t.TempDir(), "place")
	joinLinks(t, at)
	f := newFabric(t)
	p := f.process(1)
	l := p.idOf(NTB)
	check(t, l.BindAddr(netip.AddrPortFrom(ntbClient, ntbPort)))
	check(t, l.Listen(0))
	o := startOther(t, "dial", at)
	server, _ := f.requested(l)
	check(t, server.Accept(&someParam))
	server.want(Established)
	o.says(Established.String())
	client := p.resolvedOf(NTB, l.LocalAddr())
	own := f.establish(client, l)
	exchange(client, own)
	o.kill()
	server.want(Disconnected)
	server.wantFlushed()
	if client.QP().State() != ib.QPRTS || own.QP().State() != ib.QPRTS {
		t.Errorf("to itself: %v and %v, when another process has died", client.QP().State(), own.QP().State())
	}
	check(t, client.Disconnect())
	own.want(Disconnected)
	check(t, own.Disconnect())
	client.want(Disconnected)
	nobody := p.resolvedOf(NTB, netip.AddrPortFrom(ntbClient, ntbPort+1))
	check(t, nobody.Connect(&someParam))
	var re *RejectedError
	if ev := nobody.want(Rejected); !errors.As(ev.Err, &re) || re.Reason != RejectNoListener {
		t.Errorf("rejected with %v", ev.Err)
	}
	again := p.idOf(NTB)
	if err := again.BindAddr(netip.AddrPortFrom(ntbClient, ntbPort)); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port twice: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	far := p.idOf(NTB)
	check(t, far.ResolveAddr(ctx, netip.AddrPort{}, netip.AddrPortFrom(ntbServer, 7)))
	if ev := far.want(AddrError); !errors.Is(ev.Err, syscall.EHOSTUNREACH) {
		t.Errorf("nobody is at the other side: %v", ev.Err)
	}
}
