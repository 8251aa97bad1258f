// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/childproc"
	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

// childEnv makes the test program a peer process instead.
const childEnv = "VERBENA_TEST_PEER"

// boxEnv names the file by whose domain such a process serves a shared receive queue instead.
const boxEnv = "VERBENA_TEST_XRC_FILE"

func TestMain(m *testing.M) {
	if device := os.Getenv(childEnv); device != "" {
		if path := os.Getenv(boxEnv); path != "" {
			serveBox(device, path)
			return
		}
		servePeer(device)
		return
	}
	os.Exit(m.Run())
}

// servePeer connects a queue pair with the one whose number it reads from
// stdin and takes messages until stdin ends.
func servePeer(device string) {
	dev := must(verbs.Open(device))
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(64, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxRecvWR: 64, MaxRecvSGE: 1}}))
	fmt.Println(uint32(qp.QPN()))
	var peer uint32
	must(fmt.Scan(&peer))
	a := ib.QPAttr{State: ib.QPInit, PortNum: 1}
	done(qp.Modify(&a, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags))
	a = ib.QPAttr{State: ib.QPRTR, DestQPN: ib.QPN(peer), PathMTU: ib.MTU1024, RQPSN: 77, MinRNRTimer: 1, AH: ib.AHAttr{PortNum: 1}}
	if dev.Info().NetDev != "" { // on this host; a link has one peer only
		a.AH.IsGlobal, a.AH.GRH.DGID = true, must(dev.QueryGID(1, 0))
	}
	done(qp.Modify(&a, ib.QPStateAttr|ib.QPAV|ib.QPDestQPN|ib.QPPathMTU|ib.QPRQPSN|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer))
	for range 64 {
		must(qp.PostRecv(verbs.RecvWR{}))
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin) // the device serves the peer meanwhile
	done(dev.Close())
}

// process is a peer process and the queue pair connected with it.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	qpn ib.QPN
	end *end
}

func startPeer(t *testing.T) *process { return startPeerOn(t, loopback.Device(t)) }

func startPeerOn(t *testing.T, device string, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(append(os.Environ(), env...), childEnv+"="+device)
	in, out := childproc.Start(t, p.cmd)
	p.in, p.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		p.in.Close()
		p.cmd.Wait() // fails for the one that was killed
	})
	var n uint32
	_, err := fmt.Fscan(p.out, &n)
	check(t, err)
	p.qpn = ib.QPN(n)
	return p
}

// connect makes a queue pair here for the process and waits until both ends
// are ready.
func (p *process) connect(t *testing.T) {
	t.Helper()
	p.end = newEnd(t, ib.QPTypeRC, 64)
	gid, err := p.end.ctx.QueryGID(1, 0)
	check(t, err)
	p.join(t, ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: gid}})
}

// join is connect of the queue pair that p.end is, by a path.
func (p *process) join(t *testing.T, path ib.AHAttr) {
	t.Helper()
	toInit(t, p.end)
	rtr := ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, DestQPN: p.qpn, MinRNRTimer: 1, AH: path}
	check(t, p.end.qp.Modify(&rtr, ib.QPStateAttr|ib.QPAV|ib.QPPathMTU|ib.QPDestQPN|ib.QPRQPSN|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer))
	rts := ib.QPAttr{State: ib.QPRTS, SQPSN: 77, Timeout: 14, RetryCnt: 7, RNRRetry: 7}
	check(t, p.end.qp.Modify(&rts, ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic))
	fmt.Fprintln(p.in, uint32(p.end.qp.QPN()))
	var word string
	_, err := fmt.Fscan(p.out, &word)
	check(t, err)
}

func (p *process) send() ib.WCStatus {
	p.end.t.Helper()
	return p.end.post(verbs.SendWR{Opcode: ib.WRSend}).Status
}

// TestKilledProcess kills one of three processes that share the port: the first, which may hold the
// port for all. Messages to it end with RETRY_EXC_ERR; the other two go on.
func TestKilledProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes share the port on Linux only")
	}
	victim, other := startPeer(t), startPeer(t)
	victim.connect(t)
	other.connect(t)
	for range 3 {
		wantStatus(t, victim.send(), ib.WCSuccess)
		wantStatus(t, other.send(), ib.WCSuccess)
	}
	check(t, victim.cmd.Process.Kill())
	victim.cmd.Wait()
	_, err := victim.end.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend})
	check(t, err)
	for range 10 {
		wantStatus(t, other.send(), ib.WCSuccess)
	}
	wc := victim.end.poll(1)[0]
	if wantStatus(t, wc.Status, ib.WCRetryExcErr); victim.end.qp.State() != ib.QPErr {
		t.Errorf("state %v", victim.end.qp.State())
	}
	wantStatus(t, other.send(), ib.WCSuccess)

	// A process that comes now finds a place.
	next := startPeer(t)
	next.connect(t)
	wantStatus(t, next.send(), ib.WCSuccess)
}
