// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

// window limits the number of WRITEs in flight.
const window = 16

// write writes to the server's memory until ctx ends or the server has gone. Pending operations
// have grace to complete.
func write(ctx context.Context, addr string, grace time.Duration) (err error) {
	var page *verbs.MR
	c, err := rdmacm.Dial(ctx, addr, &rdmacm.Options{Prepare: func(c *rdmacm.Conn) (err error) {
		if page, err = c.RegMR(make([]byte, 4096), ib.AccessLocalWrite); err != nil {
			return err
		}
		_, err = c.QP().PostRecv(verbs.RecvWR{SGList: []ib.SGE{page.SGE(0, 12)}})
		return err
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		c.Wait(stop) // until the server disconnects or dies
		cancel()
	}()

	var wc [1]ib.WC
	for n := 0; n == 0; {
		if n, err = c.RecvCQ.Poll(wc[:]); err != nil || stop.Err() != nil {
			return err
		}
	}
	if err := wc[0].Err(); err != nil {
		return err
	}
	wr := verbs.SendWR{
		Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{page.SGE(0, 4096)},
		RemoteAddr: binary.BigEndian.Uint64(page.Bytes()),
		RKey:       ib.RKey(binary.BigEndian.Uint32(page.Bytes()[8:])),
	}

	fmt.Println("writing")
	w := writer{c: c}
	for stop.Err() == nil && w.failed == 0 {
		if w.pending < window {
			if _, err := c.QP().PostSend(wr); err != nil {
				return err
			}
			w.pending++
		} else if err := w.poll(); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		fmt.Println("the server has gone")
		grace = 0
	}
	err = w.drain(grace)
	fmt.Printf("%d written, %d not, %d pending\n", w.written, w.failed, w.pending)
	return err
}

// writer counts operations. Each signaled request has one completion, so the writer knows how
// many are pending.
type writer struct {
	c                        *rdmacm.Conn
	written, failed, pending int
}

func (w *writer) poll() error {
	var wcs [window]ib.WC
	n, err := w.c.SendCQ.Poll(wcs[:])
	w.pending -= n
	for _, wc := range wcs[:n] {
		if wc.Status == ib.WCSuccess {
			w.written++
		} else {
			w.failed++
		}
	}
	return err
}

// drain waits until nothing is pending. After grace it disconnects, which flushes the operations
// that a dead or stopped server does not complete.
func (w *writer) drain(grace time.Duration) error {
	for end := time.Now().Add(grace); w.pending > 0; {
		if err := w.poll(); err != nil {
			return err
		}
		if time.Now().After(end) {
			if err := w.c.ID.Disconnect(); err != nil {
				return err
			}
		}
	}
	return nil
}
