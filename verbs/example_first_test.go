// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"verbena/ib"
	"verbena/verbs"
)

// Each network interface has a device of each kind.
func ExampleDevices() {
	for _, d := range must(verbs.Devices()) {
		if d.NetDev == "lo" || d.NetDev == "lo0" {
			fmt.Println(d.Kind, d.Name == string(d.Kind)+"_"+d.NetDev)
		}
	}
	// Output:
	// roce true
	// iwarp true
	// trp true
}

// Options hold for the process. Its first Open sets them.
func ExampleOpen() {
	dir := must(os.MkdirTemp("", "capture"))
	defer os.RemoveAll(dir)
	dev, err := verbs.Open("", verbs.WithCapture(filepath.Join(dir, "all.pcapng")), verbs.WithFaults("loss=1%,seed=7"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	fmt.Println(dev.Info().Kind)
}

// The error of a refused call says why, and has the errno that libibverbs returns.
func ExampleError() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	_, err := pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 1 << 30}})
	fmt.Println(err)
	var refused *verbs.Error
	fmt.Println(errors.As(err, &refused), errors.Is(err, syscall.EINVAL))
	// Output:
	// attr.Cap.MaxSendWR: 1073741824 is more than the device's 32768 (invalid argument)
	// true true
}

// A batch is posted up to the first work request that is refused.
func ExampleQP_PostSend() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	selfConnected(dev, qp)
	wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled}
	posted, err := qp.PostSend(slices.Repeat([]verbs.SendWR{wr}, 6)...)
	fmt.Println(posted, "posted; the queue is full:", errors.Is(err, syscall.ENOMEM))
	for range posted {
		one(cq)
	}
	posted, err = qp.PostSend(wr, wr)
	fmt.Println(posted, "posted;", err)
	// Output:
	// 4 posted; the queue is full: true
	// 2 posted; <nil>
}

// An atomic operation adds to a word of the peer's memory, and returns the word's old value.
func ExampleSendWR() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	selfConnected(dev, qp)
	counter := must(dev.AllocBuffer(8)) // aligned, as atomic operations need
	shared := must(pd.RegMR(counter.Bytes(), ib.AccessLocalWrite|ib.AccessRemoteAtomic))
	before := must(pd.RegMR(make([]byte, 8), ib.AccessLocalWrite))
	for range 3 {
		must(qp.PostSend(verbs.SendWR{
			Opcode: ib.WRAtomicFetchAndAdd, Flags: ib.SendSignaled, SGList: []ib.SGE{before.SGE(0, 8)},
			RemoteAddr: shared.Addr(), RKey: shared.RKey(), CompareAdd: 7,
		}))
		one(cq)
		fmt.Println(before.Bytes()[0], "before,", shared.Bytes()[0], "after")
	}
	// Output:
	// 0 before, 7 after
	// 7 before, 14 after
	// 14 before, 21 after
}
