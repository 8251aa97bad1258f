// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/testkit/childproc"
	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

const boxBytes = 4 << 20

// serveBox has a shared receive queue of the domain of a file, and does what it reads from stdin.
func serveBox(device, path string) {
	dev := must(verbs.Open(device))
	f := must(os.OpenFile(path, os.O_RDONLY, 0))
	x := must(dev.OpenXRCD(f, os.O_CREATE))
	done(f.Close())
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(4096, nil))
	buf := make([]byte, boxBytes)
	mr := must(pd.RegMR(buf, ib.AccessLocalWrite|ib.AccessRemote))
	srq := must(pd.CreateXRCSRQ(ib.SRQAttr{MaxWR: 1024, MaxSGE: 1}, x, cq))
	fmt.Println(uint32(srq.Num()), mr.Addr(), uint32(mr.RKey()))
	type place struct{ off, n int }
	at := map[uint64]place{}
	var target *verbs.QP
	for {
		var word string
		var id uint64
		var p place
		if _, err := fmt.Scan(&word, &id, &p.off, &p.n); err != nil {
			break
		}
		switch word {
		case "recv":
			at[id] = p
			must(srq.PostRecv(verbs.RecvWR{ID: id, SGList: []ib.SGE{mr.SGE(p.off, p.n)}}))
			fmt.Println("posted")
		case "poll":
			var wc [1]ib.WC
			for until := time.Now().Add(10 * time.Second); must(cq.Poll(wc[:])) == 0; runtime.Gosched() {
				if time.Now().After(until) {
					fmt.Println("nothing")
					os.Exit(1)
				}
			}
			w, off := &wc[0], at[wc[0].WRID].off
			sum := uint32(0)
			if w.Status == ib.WCSuccess && w.Opcode == ib.WCRecv {
				sum = crc32.ChecksumIEEE(buf[off : off+int(w.ByteLen)])
			}
			fmt.Println(w.WRID, w.Status == ib.WCSuccess, uint8(w.Opcode), w.ByteLen, uint32(w.QPN), w.ImmData, sum)
		case "sum":
			fmt.Println(crc32.ChecksumIEEE(buf[p.off : p.off+p.n]))
		case "empty":
			fmt.Println(must(cq.Poll(make([]ib.WC, 1))))
		case "leave":
			done(srq.Destroy())
			fmt.Println("left")
		case "target":
			target = must(x.CreateQP(nil))
			fmt.Println(uint32(target.QPN()))
		case "open":
			target = must(x.OpenQP(ib.QPN(id)))
			fmt.Println(target.State())
		case "state":
			fmt.Println(target.State())
		case "destroy":
			done(target.Destroy())
			fmt.Println("destroyed")
		case "close":
			done(dev.Close())
			fmt.Println("closed")
		}
	}
}

// box is a process with a shared receive queue.
type box struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	srq  ib.SRQN
	addr uint64
	rkey ib.RKey
}

func startBox(t *testing.T, path string) *box {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("processes share XRC domains on Linux only")
	}
	b := &box{t: t, cmd: exec.Command(os.Args[0])}
	b.cmd.Env = append(os.Environ(), childEnv+"="+loopback.Device(t), boxEnv+"="+path)
	in, out := childproc.Start(t, b.cmd)
	b.in, b.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		b.in.Close()
		b.cmd.Wait() // fails for the one that was killed
	})
	var srq, rkey uint32
	b.scan(&srq, &b.addr, &rkey)
	b.srq, b.rkey = ib.SRQN(srq), ib.RKey(rkey)
	return b
}

func (b *box) scan(what ...any) {
	b.t.Helper()
	if _, err := fmt.Fscan(b.out, what...); err != nil {
		b.t.Fatalf("process %d: %v", b.cmd.Process.Pid, err)
	}
}

// do has the process do something, and returns its answer.
func (b *box) do(word string, id uint64, off, n int) (answer string) {
	b.t.Helper()
	fmt.Fprintln(b.in, word, id, off, n)
	b.scan(&answer)
	return answer
}

func (b *box) recv(id uint64, off, n int) {
	b.t.Helper()
	b.do("recv", id, off, n)
}

// want polls a completion, and compares it.
func (b *box) want(id uint64, op ib.WCOpcode, n int, q ib.QPN, imm, sum uint32) {
	b.t.Helper()
	fmt.Fprintln(b.in, "poll", 0, 0, 0)
	var got struct {
		id     uint64
		ok     bool
		op     uint8
		n, qpn uint32
		imm    uint32
		sum    uint32
	}
	b.scan(&got.id, &got.ok, &got.op, &got.n, &got.qpn, &got.imm, &got.sum)
	if got.id != id || !got.ok || got.op != uint8(op) || got.n != uint32(n) || got.qpn != uint32(q) || got.imm != imm || got.sum != sum {
		b.t.Fatalf("completion %+v, want of %d, %v, %d bytes, QP %v, immediate %d, sum %d", got, id, op, n, q, imm, sum)
	}
}

func (b *box) kill() {
	b.t.Helper()
	check(b.t, b.cmd.Process.Kill())
	b.cmd.Wait()
}

// domainFile makes a file and opens it, which names a domain.
func domainFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "domain"))
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// sharedTarget returns an initiator connected with a target of this process.
func sharedTarget(t *testing.T, f *os.File, size int) (here *station, from *end, to *verbs.QP) {
	t.Helper()
	here = newStation(t, size, f)
	from, to = here.initiator(size)
	pattern(from.buf, 3)
	return here, from, to
}

// boxWithMail is sharedTarget beside a process that has got the initiator's first message.
func boxWithMail(t *testing.T, f *os.File) (here *station, from *end, to *verbs.QP, b *box) {
	t.Helper()
	here, from, to = sharedTarget(t, f, 4096)
	b = startBox(t, f.Name())
	b.recv(1, 0, 64)
	from.sendTo(b.srq, 1, 0, 64)
	from.one()
	b.want(1, ib.WCRecv, 64, to.QPN(), 0, crc32.ChecksumIEEE(from.buf[:64]))
	return here, from, to, b
}

// TestXRCDomainOfTwoProcesses sends messages to shared receive queues of this process and of two
// others, by one target of this process, in turns.
func TestXRCDomainOfTwoProcesses(t *testing.T) {
	f := domainFile(t)
	here, from, to := sharedTarget(t, f, 4<<20)
	one, two := startBox(t, f.Name()), startBox(t, f.Name())
	send := func(n ib.SRQN, wr verbs.SendWR, off, size int) {
		t.Helper()
		wr.RemoteSRQN, wr.Flags = n, wr.Flags|ib.SendSignaled
		wr.SGList = []ib.SGE{from.mr.SGE(off, size)}
		_, err := from.qp.PostSend(wr)
		check(t, err)
	}
	sum := func(off, n int) uint32 { return crc32.ChecksumIEEE(from.buf[off : off+n]) }

	one.recv(1, 0, 100)
	two.recv(2, 0, boxBytes)
	one.recv(3, 0, 64)
	here.post(4, 0, 1000)
	here.post(5, 0, 0)
	one.recv(6, 0, boxBytes)
	send(one.srq, verbs.SendWR{ID: 1, Opcode: ib.WRSend}, 0, 100)
	send(two.srq, verbs.SendWR{ID: 2, Opcode: ib.WRSendWithImm, ImmData: 77}, 5, 3<<20)
	send(one.srq, verbs.SendWR{ID: 3, Opcode: ib.WRSend}, 0, 0)
	send(here.srq.Num(), verbs.SendWR{ID: 4, Opcode: ib.WRSend}, 9, 1000)
	send(one.srq, verbs.SendWR{ID: 5, Opcode: ib.WRRDMAWrite, RemoteAddr: one.addr + 4096, RKey: one.rkey}, 17, 1<<20)
	send(one.srq, verbs.SendWR{ID: 6, Opcode: ib.WRRDMAWriteWithImm, ImmData: 78, RemoteAddr: one.addr, RKey: one.rkey}, 0, 10)
	send(here.srq.Num(), verbs.SendWR{ID: 7, Opcode: ib.WRSend}, 9, 0)
	for i, wc := range from.poll(7) {
		check(t, wc.Err())
		if wc.WRID != uint64(i+1) {
			t.Errorf("completion of %d in place %d", wc.WRID, i+1)
		}
	}
	one.want(1, ib.WCRecv, 100, to.QPN(), 0, sum(0, 100))
	two.want(2, ib.WCRecv, 3<<20, to.QPN(), 77, sum(5, 3<<20))
	one.want(3, ib.WCRecv, 0, to.QPN(), 0, 0)
	one.want(6, ib.WCRecvRDMAWithImm, 10, to.QPN(), 78, 0)
	if got, want := one.do("sum", 0, 4096, 1<<20), fmt.Sprint(sum(17, 1<<20)); got != want {
		t.Errorf("after the WRITE the sum is %s, want %s", got, want)
	}
	if wc := here.poll(2); wc[0].WRID != 4 || wc[1].WRID != 5 {
		t.Errorf("completions of %d and %d here", wc[0].WRID, wc[1].WRID)
	}
}

// send posts a SEND of n bytes from off to a shared receive queue.
func (e *end) sendTo(n ib.SRQN, id uint64, off, size int) {
	e.t.Helper()
	_, err := e.qp.PostSend(verbs.SendWR{ID: id, Opcode: ib.WRSend, Flags: ib.SendSignaled, RemoteSRQN: n, SGList: []ib.SGE{e.mr.SGE(off, size)}})
	check(e.t, err)
}

// TestXRCOtherProcessIsNotReady: a message for a queue without receives waits, as one within a
// process does, and those behind it too. None is lost or doubled.
func TestXRCOtherProcessIsNotReady(t *testing.T) {
	f := domainFile(t)
	here, from, to := sharedTarget(t, f, 4096)
	b := startBox(t, f.Name())
	for i := range 4 {
		here.post(uint64(i), 0, 64)
	}
	for i := range 4 {
		from.sendTo(b.srq, uint64(2*i), i, 50)
		from.sendTo(here.srq.Num(), uint64(2*i+1), i, 50)
	}
	for i := range 4 {
		var none [1]ib.WC
		if n, err := here.cq.Poll(none[:]); n != 0 || err != nil {
			t.Fatalf("%+v, %v before the message that was sent first was delivered", none[0], err)
		}
		b.recv(uint64(10+i), 0, 64)
		b.want(uint64(10+i), ib.WCRecv, 50, to.QPN(), 0, crc32.ChecksumIEEE(from.buf[i:i+50]))
		if wc := here.one(); wc.WRID != uint64(i) {
			t.Errorf("completion of %d, want %d", wc.WRID, i)
		}
	}
	for i, wc := range from.poll(8) {
		check(t, wc.Err())
		if wc.WRID != uint64(i) {
			t.Errorf("completion of %d, want %d", wc.WRID, i)
		}
	}
	if got := b.do("empty", 0, 0, 0); got != "0" {
		t.Error("a message came twice")
	}
	rnr := verbs.SendWR{ID: 20, Opcode: ib.WRSend, Flags: ib.SendSignaled, RemoteSRQN: b.srq}
	check(t, from.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	check(t, to.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	connectXRC(t, from, here.ctx, to, func(a *ib.QPAttr) { a.RNRRetry = 1 })
	_, err := from.qp.PostSend(rnr)
	check(t, err)
	wantStatus(t, from.poll(1)[0].Status, ib.WCRNRRetryExcErr)
}

// TestXRCManyToOtherProcesses streams messages of all sizes to two processes, whose receives come
// late and in small numbers.
func TestXRCManyToOtherProcesses(t *testing.T) {
	f := domainFile(t)
	_, from, to := sharedTarget(t, f, 1<<20)
	boxes := []*box{startBox(t, f.Name()), startBox(t, f.Name())}
	const messages = 100
	size := func(i int) int { return i * i * 37 % 60000 }
	posted := make([]int, len(boxes))
	done := make([]int, len(boxes))
	sent, ended := 0, 0
	var wcs [64]ib.WC
	for ended < messages {
		for sent < messages && sent-ended < 64 {
			from.sendTo(boxes[sent/3%2].srq, uint64(sent), sent, size(sent))
			sent++
		}
		for i, b := range boxes {
			for posted[i]-done[i] < 3 {
				b.recv(uint64(posted[i]), posted[i]%8*(64<<10), 64<<10)
				posted[i]++
			}
		}
		for i := ended; i < sent; i++ { // each box takes what is its next, if it has room
			b := i / 3 % 2
			if done[b] == posted[b] {
				break
			}
			boxes[b].want(uint64(done[b]), ib.WCRecv, size(i), to.QPN(), 0, crc32.ChecksumIEEE(from.buf[i:i+size(i)]))
			done[b]++
			wc := from.one()
			if wc.WRID != uint64(i) {
				t.Fatalf("completion of %d, want %d", wc.WRID, i)
			}
			ended++
		}
	}
	if n, _ := from.cq.Poll(wcs[:]); n != 0 {
		t.Errorf("%d completions too many", n)
	}
}

// TestXRCOtherProcessRefuses: its errors reach the requester as those of one process do.
func TestXRCOtherProcessRefuses(t *testing.T) {
	f := domainFile(t)
	stranger := startBox(t, domainFile(t).Name())
	b := startBox(t, f.Name())
	for _, c := range []struct {
		name string
		srq  ib.SRQN
		wr   verbs.SendWR
		want ib.WCStatus
	}{
		{"longer than the receive", b.srq, verbs.SendWR{Opcode: ib.WRSend}, ib.WCRemInvReqErr},
		{"a wrong key", b.srq, verbs.SendWR{Opcode: ib.WRRDMAWrite, RemoteAddr: b.addr, RKey: b.rkey + 1}, ib.WCRemAccessErr},
		{"no queue of the process", b.srq + 1000, verbs.SendWR{Opcode: ib.WRSend}, ib.WCRemAccessErr},
		{"a queue of another domain", stranger.srq, verbs.SendWR{Opcode: ib.WRSend}, ib.WCRemAccessErr},
		{"READ with a wrong key", b.srq, verbs.SendWR{Opcode: ib.WRRDMARead, RemoteAddr: b.addr, RKey: b.rkey + 1}, ib.WCRemAccessErr},
		{"READ of too much", b.srq, verbs.SendWR{Opcode: ib.WRRDMARead, RemoteAddr: b.addr + boxBytes - 99, RKey: b.rkey}, ib.WCRemAccessErr},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, from, _ := sharedTarget(t, f, 4096)
			b.recv(1, 0, 10)
			c.wr.RemoteSRQN, c.wr.Flags, c.wr.SGList = c.srq, ib.SendSignaled, []ib.SGE{from.mr.SGE(0, 100)}
			_, err := from.qp.PostSend(c.wr)
			check(t, err)
			wantStatus(t, from.poll(1)[0].Status, c.want)
		})
	}
}

// TestXRCOtherProcessKilled: the message that it has not acknowledged fails, and so do later ones.
func TestXRCOtherProcessKilled(t *testing.T) {
	f := domainFile(t)
	here, from, to, b := boxWithMail(t, f)
	from.sendTo(b.srq, 2, 0, 64) // waits for a receive
	here.post(5, 0, 64)
	from.sendTo(here.srq.Num(), 3, 0, 64)
	b.kill()
	wc := from.poll(2)
	if wc[0].Status != ib.WCRemOpErr && wc[0].Status != ib.WCRemAccessErr || wc[1].Status != ib.WCWRFlushErr {
		t.Errorf("%v, %v", wc[0].Status, wc[1].Status)
	}
	check(t, from.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	check(t, to.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	connectXRC(t, from, here.ctx, to)
	from.sendTo(here.srq.Num(), 4, 0, 64)
	from.one()
	if wc := here.one(); wc.WRID != 5 {
		t.Errorf("completion of %d", wc.WRID)
	}
	// One that comes now is found, with the slot of the dead.
	next := startBox(t, f.Name())
	next.recv(1, 0, 64)
	from.sendTo(next.srq, 6, 1, 64)
	from.one()
	next.want(1, ib.WCRecv, 64, to.QPN(), 0, crc32.ChecksumIEEE(from.buf[1:65]))
}

// TestXRCFileFlags: a domain exists while a process has it open.
func TestXRCFileFlags(t *testing.T) {
	f := domainFile(t)
	c, err := verbs.Open(loopback.Device(t))
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	refused := func(why string, flag int, want error) {
		t.Helper()
		if _, err := c.OpenXRCD(f, flag); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", why, err, want)
		}
	}
	refused("none is open", 0, syscall.EAGAIN)
	b := startBox(t, f.Name())
	refused("another process has it", os.O_CREATE|os.O_EXCL, syscall.EINVAL)
	x, err := c.OpenXRCD(f, 0)
	check(t, err)
	check(t, x.Close())
	b.kill()
	refused("the process was killed", 0, syscall.EAGAIN)
	x, err = c.OpenXRCD(f, os.O_CREATE|os.O_EXCL)
	check(t, err)
	check(t, x.Close())
	b = startBox(t, f.Name())
	b.do("close", 0, 0, 0)
	refused("the process has closed it", 0, syscall.EAGAIN)
}

// TestXRCOtherProcessLeaves: a queue that is destroyed, and a process that closes its device.
func TestXRCOtherProcessLeaves(t *testing.T) {
	for _, how := range []string{"leave", "close"} {
		f := domainFile(t)
		here, from, to, b := boxWithMail(t, f)
		b.do(how, 0, 0, 0)
		from.sendTo(b.srq, 2, 0, 64)
		wantStatus(t, from.poll(1)[0].Status, ib.WCRemAccessErr)
		check(t, to.Destroy())
		check(t, here.srq.Destroy())
		check(t, here.xrcd.Close())
	}
}

// TestXRCTargetDestroyedWithTraffic leaves nothing behind in the other process: it closes its
// domain, and opens it anew.
func TestXRCTargetDestroyedWithTraffic(t *testing.T) {
	f := domainFile(t)
	b := startBox(t, f.Name())
	for range 5 {
		_, from, to := sharedTarget(t, f, 1<<20)
		b.recv(1, 0, 1<<20)
		for i := range 20 {
			from.sendTo(b.srq, uint64(i), 0, 100000)
		}
		check(t, to.Destroy())
		from.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr)
		from.poll(20)
	}
	if got := b.do("leave", 0, 0, 0); got != "left" {
		t.Error(got)
	}
}
