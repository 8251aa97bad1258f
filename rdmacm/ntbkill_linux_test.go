// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// Two processes have a link, and the other one is killed. It is this test program; its environment
// selects its role.

const (
	roleVar = "VERBENA_RDMACM_ROLE"
	ntbPort = 7471
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := play(role); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// play is the other process. It says how far it is, line by line.
func play(role string) error {
	ch := NewEventChannel()
	id, err := NewID(ch, TCP)
	if err != nil {
		return err
	}
	if role == "dial" {
		return playClient(id, ch)
	}
	if err := id.BindAddr(netip.AddrPortFrom(ntbClient, otherPort())); err != nil { // it is first
		return err
	}
	if err := id.Listen(0); err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		ev, err := ch.Get(context.Background())
		if err != nil {
			return err
		}
		if ev.Type != ConnectRequest {
			continue
		}
		switch role {
		case "accept":
			if err = playQP(ev.ID); err == nil {
				err = ev.ID.Accept(&someParam)
			}
		case "reject":
			if err = ev.ID.Reject([]byte("no room")); err == nil {
				os.Exit(0) // at once, as many a program does
			}
		}
		if err != nil {
			return err
		}
		fmt.Println("asked")
	}
}

func playClient(id *ID, ch *EventChannel) error {
	if err := id.ResolveAddr(context.Background(), netip.AddrPort{}, netip.AddrPortFrom(ntbClient, otherPort())); err != nil {
		return err
	}
	for {
		ev, err := ch.Get(context.Background())
		switch {
		case err != nil:
			return err
		case ev.Err != nil:
			return ev.Err
		case ev.Type == AddrResolved:
			err = id.ResolveRoute()
		case ev.Type == RouteResolved:
			if err = playQP(id); err == nil {
				err = id.Connect(&someParam)
			}
		default:
			fmt.Println(ev.Type)
		}
		if err != nil {
			return err
		}
	}
}

func playQP(id *ID) error {
	pd, err := id.Verbs().AllocPD()
	if err != nil {
		return err
	}
	cq, err := id.Verbs().CreateCQ(16, nil)
	if err != nil {
		return err
	}
	return id.CreateQP(pd, &verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
}

// other is the other process.
type other struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startOther(t *testing.T, role, link string) *other {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role, "VERBENA_NTB="+link)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	o := &other{t, cmd, bufio.NewScanner(out)}
	t.Cleanup(o.kill)
	return o
}

// says waits for a line of the other process.
func (o *other) says(want string) {
	o.t.Helper()
	if !o.lines.Scan() || o.lines.Text() != want {
		o.t.Fatalf("the other process says %q, want %q", o.lines.Text(), want)
	}
}

func (o *other) kill() {
	_ = o.cmd.Process.Kill() // it may have ended
	_ = o.cmd.Wait()
}

// wantFlushed waits until each posted request has completed or is flushed.
func (e *equipped) wantFlushed() {
	e.t.Helper()
	if wc := e.completion(); wc.Status != ib.WCWRFlushErr {
		e.t.Errorf("the receive completed with %v", wc.Status)
	}
	if s := e.QP().State(); s != ib.QPErr {
		e.t.Errorf("queue pair in %v", s)
	}
}

func TestNTBPeerKilled(t *testing.T) {
	at := filepath.Join(t.TempDir(), "link")
	for name, ends := range map[string][2]string{ // ours, the other's
		"shm": {"10.99.0.1+10.99.0.2=shm:" + at, "10.99.0.1+10.99.0.2=shm:" + at},
		"tcp": {"10.99.0.2=c:127.77.0.3:7471", "10.99.0.1=s:127.77.0.3:7471"},
	} {
		t.Run(name, func(t *testing.T) {
			joinLinks(t, ends[0])
			f := newFabric(t)
			dst := netip.AddrPortFrom(ntbClient, ntbPort)
			var p *process
			connecting := func() *equipped {
				if p == nil { // after the first of the others: they take the end that is free
					p = f.process(1)
				}
				client := p.resolvedOf(NTB, dst)
				check(t, client.Connect(&someParam))
				return client
			}
			for range 3 {
				o := startOther(t, "accept", ends[1])
				o.says("listening")
				client := connecting()
				client.want(Established)
				o.kill()
				client.want(Disconnected)
				client.wantFlushed()
				check(t, client.Disconnect())
			}
			o := startOther(t, "silent", ends[1])
			o.says("listening")
			client := connecting()
			o.says("asked")
			o.kill()
			client.want(Unreachable)
			client.wantFlushed()

			o = startOther(t, "reject", ends[1])
			o.says("listening")
			client = connecting()
			var re *RejectedError
			if ev := client.want(Rejected); !errors.As(ev.Err, &re) || re.Reason != RejectConsumer || said(ev.PrivateData) != "no room" {
				t.Errorf("rejected with %v, %q", ev.Err, ev.PrivateData)
			}
			client.wantFlushed()
		})
	}
}

// The same where the other process is the client.
func TestNTBClientKilled(t *testing.T) {
	at := "10.99.0.1+10.99.0.2=shm:" + filepath.Join(t.TempDir(), "link")
	joinLinks(t, at)
	f := newFabric(t)
	p := f.process(1)
	l := p.idOf(NTB)
	check(t, l.BindAddr(netip.AddrPortFrom(ntbClient, ntbPort)))
	check(t, l.Listen(0))
	for range 3 {
		o := startOther(t, "dial", at)
		server, _ := f.requested(l)
		check(t, server.Accept(&someParam))
		server.want(Established)
		o.says(Established.String())
		o.kill()
		server.want(Disconnected)
		server.wantFlushed()
		check(t, server.Disconnect())
	}
	o := startOther(t, "dial", at)
	pending, _ := f.requested(l)
	o.kill()
	pending.wantGivenUp()
	pending.wantFlushed()
}
