// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package ivshmem

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"time"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

// In a guest this program is one end of the work: it serves memory at an address,
// or writes to it and reads it back.
const (
	serveVar = "VERBENA_IVSHMEM_SERVE"
	workVar  = "VERBENA_IVSHMEM_WORK"
)

// workFirst does the work that the environment names, and does not return then.
func workFirst() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var err error
	switch {
	case os.Getenv(serveVar) != "":
		err = serve(ctx, os.Getenv(serveVar))
	case os.Getenv(workVar) != "":
		err = work(ctx, os.Getenv(workVar))
	default:
		return
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

const (
	offered = 1 << 20 // bytes of each region
	guard   = 4096    // before and behind it
	rounds  = 300     // between two interruptions
)

var untouched = bytes.Repeat([]byte{0xee}, guard)

// serve offers memory of the process, and memory in the window, to each client, one after the
// other.
func serve(ctx context.Context, addr string) error {
	dev, err := verbs.Open("ntb0")
	if err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	window, err := dev.AllocBuffer(offered + 2*guard)
	if err != nil {
		return err
	}
	all := [][]byte{make([]byte, offered+2*guard), window.Bytes()}
	var told []byte
	for _, b := range all {
		copy(b, untouched)
		copy(b[guard+offered:], untouched)
		mr, err := pd.RegMR(b[guard:guard+offered], ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead)
		if err != nil {
			return err
		}
		told = binary.LittleEndian.AppendUint64(told, mr.Addr())
		told = binary.LittleEndian.AppendUint32(told, uint32(mr.RKey()))
	}
	l, err := rdmacm.ListenAddr(addr, &rdmacm.Options{Kind: rdmacm.NTB, PD: pd, Param: &rdmacm.ConnParam{
		PrivateData: told, ResponderResources: rdmacm.MaxRdAtomic, InitiatorDepth: rdmacm.MaxRdAtomic, RetryCount: 7, RNRRetryCount: 7}})
	if err != nil {
		return err
	}
	fmt.Println("listening at", l.Addr())
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		fmt.Println("connected")
		if err := errors.Join(c.Wait(ctx), c.Close()); err != nil {
			return err
		}
		for _, b := range all {
			if !bytes.Equal(b[:guard], untouched) || !bytes.Equal(b[guard+offered:], untouched) {
				return errors.New("bytes that nobody may write have changed")
			}
		}
	}
}

// work connects, again whenever the connection ends, and has all it writes come
// back with its checksum.
func work(ctx context.Context, addr string) error {
	w := worker{rnd: rand.New(rand.NewPCG(1, 1))}
	for w.done < 3*rounds {
		c, err := rdmacm.Dial(ctx, addr, &rdmacm.Options{Kind: rdmacm.NTB})
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			time.Sleep(10 * time.Millisecond)
			continue
		}
		fmt.Println("connected")
		if err := w.with(ctx, c); err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

type worker struct {
	rnd  *rand.Rand
	done int
}

// with works until all is done, or the connection has ended.
func (w *worker) with(ctx context.Context, c *rdmacm.Conn) error {
	buf := make([]byte, 2*offered)
	mr, err := c.RegMR(buf, ib.AccessLocalWrite)
	if err != nil {
		return err
	}
	for from := time.Now(); w.done < 3*rounds; {
		region := c.PrivateData[12*(w.done%2):]
		addr, rkey := binary.LittleEndian.Uint64(region), ib.RKey(binary.LittleEndian.Uint32(region[8:]))
		n := 1 + w.rnd.IntN([]int{64, 4096, offered}[w.rnd.IntN(3)])
		at := w.rnd.IntN(offered - n + 1)
		for i := 0; i < n; i += 8 {
			binary.LittleEndian.PutUint64(buf[i:], w.rnd.Uint64())
		}
		sum := crc32.ChecksumIEEE(buf[:n])
		clear(buf[offered:])
		_, err := c.QP().PostSend(
			verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{mr.SGE(0, n)}, RemoteAddr: addr + uint64(at), RKey: rkey},
			verbs.SendWR{Opcode: ib.WRRDMARead, Flags: ib.SendSignaled | ib.SendFence, SGList: []ib.SGE{mr.SGE(offered, n)}, RemoteAddr: addr + uint64(at), RKey: rkey})
		if err != nil {
			return err
		}
		var wc [2]ib.WC
		for k := 0; k == 0; {
			if k, err = c.SendCQ.Poll(wc[:]); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if wc[0].Status != ib.WCSuccess {
			fmt.Printf("lost the peer after %d rounds: %v\n", w.done, wc[0].Status)
			return nil
		}
		if crc32.ChecksumIEEE(buf[offered:offered+n]) != sum {
			return fmt.Errorf("round %d: %d bytes at %d came back with another checksum", w.done, n, at)
		}
		if w.done++; w.done%100 == 0 {
			fmt.Printf("%d rounds, %.1f s\n", w.done, time.Since(from).Seconds())
		}
	}
	return nil
}
