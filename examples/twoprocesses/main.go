// SPDX-License-Identifier: BSD-2-Clause

// Command twoprocesses connects the queue pairs of two processes without a connection manager. It
// starts itself a second time. The two exchange their addresses through a pipe, and the parent
// writes into the child's memory and reads it back. Two hosts would use a TCP connection instead of
// the pipe.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"

	"verbena/ib"
	"verbena/verbs"
)

// address describes one end to the other.
type address struct {
	GID  ib.GID
	QPN  ib.QPN
	PSN  ib.PSN // of the first packet that the end sends
	Addr uint64 // of its memory
	RKey ib.RKey
}

func main() {
	log.SetFlags(0)
	child := flag.Bool("child", false,
		"be the second process, with the pipe as standard input and output")
	device := flag.String("device", "", "use this RoCE device; the first active one if empty")
	flag.Parse()
	var err error
	if *child {
		err = serve(*device, os.Stdin, os.Stdout)
	} else {
		err = run(*device)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run starts the child and works on its memory.
func run(device string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-child", "-device", device)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		in.Close() // the child ends when its input does
		err = errors.Join(err, cmd.Wait())
	}()

	e, err := newEnd(device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.dev.Close()) }()
	peer, err := e.connect(out, in)
	if err != nil {
		return err
	}
	text := "written by the parent"
	copy(e.memory.Bytes(), text)
	if err := e.transfer(ib.WRRDMAWrite, peer, len(text)); err != nil {
		return err
	}
	clear(e.memory.Bytes())
	if err := e.transfer(ib.WRRDMARead, peer, len(text)); err != nil {
		return err
	}
	fmt.Printf("the child's memory: %q\n", e.memory.Bytes()[:len(text)])
	return nil
}

// serve connects the child's queue pair and leaves its memory to the parent. The parent ends it
// by closing the pipe, or by dying.
func serve(device string, in io.Reader, out io.Writer) error {
	e, err := newEnd(device)
	if err != nil {
		return err
	}
	if _, err := e.connect(in, out); err != nil {
		return errors.Join(err, e.dev.Close())
	}
	_, err = io.Copy(io.Discard, in)
	return errors.Join(err, e.dev.Close())
}

// end is one side of the connection. Closing the device destroys all of it.
type end struct {
	dev    *verbs.Context
	cq     *verbs.CQ
	qp     *verbs.QP
	memory *verbs.MR
}

const access = ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite

func newEnd(device string) (e *end, err error) {
	e = &end{}
	if e.dev, err = verbs.Open(device); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.dev.Close()
		}
	}()
	pd, err := e.dev.AllocPD()
	if err != nil {
		return nil, err
	}
	if e.cq, err = e.dev.CreateCQ(16, nil); err != nil {
		return nil, err
	}
	if e.memory, err = pd.RegMR(make([]byte, 4096), access); err != nil {
		return nil, err
	}
	e.qp, err = pd.CreateQP(&verbs.QPInitAttr{
		Type: ib.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, Cap: ib.QPCap{MaxSendWR: 16, MaxSendSGE: 1},
	})
	return e, err
}

// transfer moves n bytes between the memory of the two ends.
func (e *end) transfer(op ib.WROpcode, peer address, n int) error {
	_, err := e.qp.PostSend(verbs.SendWR{
		Opcode: op, Flags: ib.SendSignaled, SGList: []ib.SGE{e.memory.SGE(0, n)},
		RemoteAddr: peer.Addr, RKey: peer.RKey,
	})
	if err != nil {
		return err
	}
	for {
		var wc [1]ib.WC
		if n, err := e.cq.Poll(wc[:]); n == 1 || err != nil {
			return errors.Join(err, wc[0].Err())
		}
	}
}
