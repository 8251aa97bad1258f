// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/queue"
)

const (
	clientQPN = ib.QPN(0x11)
	serverQPN = ib.QPN(0x22)
	lifeVar   = "VERBENA_BRIDGE_LIFE" // which server this is, 0 unless told
)

func TestMain(m *testing.M) {
	if where := os.Getenv(roleVar); where != "" {
		serve(where)
	}
	os.Exit(m.Run())
}

// giftByte is the byte that a server writes at a place of the client's gift. Each server writes
// another one, which tells a dead server's write from its successor's.
func giftByte(life, i int) byte { return byte(life*37+i*11+i>>8) &^ 1 }

// serve is a server. It ends when its parent does.
func serve(where string) {
	fail := func(why any) {
		fmt.Fprintln(os.Stderr, "server:", why)
		os.Exit(3)
	}
	parent := os.Getppid()
	life, _ := strconv.Atoi(os.Getenv(lifeVar))
	p, err := newProcess(where, serverQPN, clientQPN)
	if err != nil {
		fail(err)
	}
	for i := range p.gift.data {
		p.gift.data[i] = giftByte(life, i)
	}
	own := string(p.gift.data)
	var count uint64
	var rkey ib.RKey
	begin := func() {
		rkey = 0
		p.connect()
		p.await()
		p.tell(p.data)
	}
	begin()
	for os.Getppid() == parent {
		if err := p.turn(); err != nil {
			fail(err)
		}
		var wc [8]ib.WC
		for i := range wc[:p.cq.Poll(wc[:])] {
			if k := keyOf(&wc[i]); k != 0 {
				rkey = k
			}
		}
		if p.q.State() == ib.QPErr {
			begin()
		}
		if rkey != 0 && p.sq.Len() == 0 {
			n := 1 + rand.IntN(giftBytes-8)
			at := 8 + rand.IntN(giftBytes-8-n+1)
			p.post(queue.SendWQE{Opcode: ib.WRRDMAWrite, RKey: rkey, RemoteAddr: base + uint64(at)}, p.gift, at, n)
			count++
			binary.NativeEndian.PutUint64(p.gift.data, count)
			p.post(queue.SendWQE{Opcode: ib.WRRDMAWrite, RKey: rkey, RemoteAddr: base}, p.gift, 0, 8)
		}
		if !p.data.guarded() || !p.gift.guarded() || string(p.gift.data[8:]) != own[8:] {
			fail("bytes that nobody may write have changed")
		}
	}
	os.Exit(0)
}

func startServer(t *testing.T, where string, life int) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+where, lifeVar+"="+strconv.Itoa(life))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}
