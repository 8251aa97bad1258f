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

const (
	rkeyDamage = 0x5a5a00
	newValue   = 5 // the operand of an atomic
	immediate  = 0x12345678
	bindTime   = 300 * time.Millisecond
)

// connect does an operation on the memory that the server at addr offers.
func connect(ctx context.Context, addr string, bytes int, seed uint32, op string) error {
	conn, err := rdmacm.Dial(ctx, addr, &rdmacm.Options{Kind: rdmacm.Kind(*kind), NoCRC: *noCRC})
	var rejected *rdmacm.RejectedError
	if errors.As(err, &rejected) {
		fmt.Printf("rejected %s\n", rejected.PrivateData)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := newMemory(conn.PD, bytes, seed)
	if err != nil {
		return err
	}
	defer m.mr.Dereg()
	wr, err := request(op, conn.PrivateData, m)
	if err != nil {
		return err
	}
	if op == "latesendinv" {
		time.Sleep(bindTime) // the server is ready to receive, and binds its window yet
		op = "sendinv"
	}
	start := time.Now()
	if _, err := conn.QP().PostSend(wr); err != nil {
		return err
	}
	wc, err := poll(ctx, conn.SendCQ)
	if err != nil {
		return err
	}
	if *kind != "" && wc.Err() == nil && (op == "write" || op == "send") {
		if err := arrived(ctx, conn, wr); err != nil {
			return err
		}
	}
	if op == "flood" {
		if wc, err = flood(ctx, conn, wr, wc); err != nil {
			return err
		}
	}
	fmt.Printf("wc %v after %d us\n", wc.Status, time.Since(start).Microseconds())
	if op == "sendinv" {
		if err := useGoneKey(ctx, conn, wr); err != nil {
			return err
		}
	}
	m.report()
	return wc.Err()
}

// useGoneKey reads by the key that a SEND has invalidated.
func useGoneKey(ctx context.Context, conn *rdmacm.Conn, wr verbs.SendWR) error {
	wr.Opcode, wr.RKey = ib.WRRDMARead, wr.InvalidateRKey
	if _, err := conn.QP().PostSend(wr); err != nil {
		return err
	}
	wc, err := poll(ctx, conn.SendCQ)
	if err != nil {
		return err
	}
	fmt.Printf("then %v\n", wc.Status)
	return nil
}

// arrived waits until the bytes sent to the server are there. Over iWARP the completion does not
// say so: a READ comes back behind them, of the same memory.
func arrived(ctx context.Context, conn *rdmacm.Conn, wr verbs.SendWR) error {
	wr.Opcode = ib.WRRDMARead
	wr.SGList = []ib.SGE{{Addr: wr.SGList[0].Addr, Length: 1, LKey: wr.SGList[0].LKey}}
	if _, err := conn.QP().PostSend(wr); err != nil {
		return err
	}
	wc, err := poll(ctx, conn.SendCQ)
	if err != nil {
		return err
	}
	return wc.Err()
}

// flood repeats a work request, a millisecond apart, until one fails.
func flood(ctx context.Context, conn *rdmacm.Conn, wr verbs.SendWR, wc ib.WC) (ib.WC, error) {
	if wc.Err() == nil {
		fmt.Println("flooding")
	}
	for wc.Err() == nil {
		if _, err := conn.QP().PostSend(wr); err != nil {
			return wc, err
		}
		var err error
		if wc, err = poll(ctx, conn.SendCQ); err != nil {
			return wc, err
		}
		time.Sleep(time.Millisecond)
	}
	return wc, nil
}

// request makes the work request of an operation on the memory that the private data offer.
func request(op string, offer []byte, m memory) (wr verbs.SendWR, err error) {
	if len(offer) < offerBytes {
		return wr, errors.New("the server has not said where its memory is")
	}
	wr = verbs.SendWR{
		Flags:      ib.SendSignaled,
		RemoteAddr: binary.BigEndian.Uint64(offer),
		RKey:       ib.RKey(binary.BigEndian.Uint32(offer[8:])),
		SGList:     []ib.SGE{m.mr.SGE(0, m.length)},
	}
	switch op {
	case "write", "flood":
		wr.Opcode = ib.WRRDMAWrite
	case "badwrite":
		wr.Opcode = ib.WRRDMAWrite
		wr.RKey ^= rkeyDamage
	case "send":
		wr.Opcode = ib.WRSend
	case "read":
		wr.Opcode = ib.WRRDMARead
	case "badread":
		wr.Opcode = ib.WRRDMARead
		wr.RKey ^= rkeyDamage
	case "sendimm":
		wr.Opcode, wr.ImmData = ib.WRSendWithImm, immediate
	case "writeimm":
		wr.Opcode, wr.ImmData = ib.WRRDMAWriteWithImm, immediate
	case "sendinv", "latesendinv":
		wr.Opcode, wr.InvalidateRKey = ib.WRSendWithInv,
			ib.RKey(binary.BigEndian.Uint32(offer[12:]))
	case "cas":
		wr.Opcode = ib.WRAtomicCmpAndSwp
		wr.CompareAdd, wr.Swap = m.word(), newValue
		wr.SGList[0] = m.mr.SGE(0, 8)
	case "fadd":
		wr.Opcode = ib.WRAtomicFetchAndAdd
		wr.CompareAdd = newValue
		wr.SGList[0] = m.mr.SGE(0, 8)
	default:
		return wr, fmt.Errorf("no operation %q", op)
	}
	return wr, nil
}

func poll(ctx context.Context, cq *verbs.CQ) (ib.WC, error) {
	var wc [1]ib.WC
	for {
		n, err := cq.Poll(wc[:])
		if err != nil || n == 1 {
			return wc[0], err
		}
		if err := ctx.Err(); err != nil {
			return wc[0], fmt.Errorf("waiting for the completion: %w", err)
		}
	}
}
