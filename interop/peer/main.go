// SPDX-License-Identifier: BSD-2-Clause

// Command peer does one operation on the memory of another process over a reliable connection, by
// rdmacm and verbs. It has the command line and the output of the program in rdmacore, which
// describes them. So either can stand on either side of a test. "echo" and "exchange" are streams
// of package rsocket, which stand beside rdma-core's rstream.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strconv"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

const usage = "usage: peer [-kind KIND] [-nocrc] serve ADDR PORT BYTES SEED | receive ADDR PORT " +
	"BYTES SEED DELAY | " +
	"refuse ADDR PORT BYTES SEED | connect ADDR PORT BYTES SEED " +
	"write|read|badread|badwrite|flood|cas|fadd|send|sendimm|writeimm|sendinv|latesendinv | " +
	"echo ADDR PORT 0 0 | exchange ADDR PORT BYTES COUNT"

// Options before the command, of our side alone.
var (
	kind  = flag.String("kind", "", "the kind of devices, as in their names")
	noCRC = flag.Bool("nocrc", false, "no CRCs in iWARP streams")
)

// limit bounds a run: the tests' own limit is longer.
const limit = 50 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	flag.Parse()
	if err := run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 5 {
		return errors.New(usage)
	}
	bytes, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(args[4], 0, 32)
	if err != nil {
		return err
	}
	addr := net.JoinHostPort(args[1], args[2])
	switch {
	case args[0] == "serve" && len(args) == 5:
		return serve(ctx, addr, bytes, uint32(seed), nil)
	case args[0] == "refuse" && len(args) == 5:
		return refuse(ctx, addr)
	case args[0] == "receive" && len(args) == 6 && (args[5] == "now" || args[5] == "bound"):
		return serve(ctx, addr, bytes, uint32(seed),
			&receiver{ready: true, windowless: args[5] == "now"})
	case args[0] == "receive" && len(args) == 6:
		delay, err := strconv.Atoi(args[5])
		if err != nil {
			return err
		}
		return serve(ctx, addr, bytes, uint32(seed),
			&receiver{delay: time.Duration(delay) * time.Millisecond})
	case args[0] == "echo" && len(args) == 5:
		return echo(addr)
	case args[0] == "exchange" && len(args) == 5:
		return exchange(ctx, addr, bytes, int(seed))
	case args[0] == "connect" && len(args) == 6:
		return connect(ctx, addr, bytes, uint32(seed), args[5])
	}
	return errors.New(usage)
}

// memory is the region that one side registers.
type memory struct {
	mr     *verbs.MR
	length int // bytes of the pattern; an atomic's 8 there always are
}

func newMemory(pd *verbs.PD, length int, seed uint32) (m memory, err error) {
	b := make([]byte, max(length, 8))
	for i := range b[:length] {
		b[i] = byte((uint32(i) + seed) * 2654435761 >> 24)
	}
	mr, err := pd.RegMR(b, ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead|
		ib.AccessRemoteAtomic|ib.AccessMWBind)
	return memory{mr, length}, err
}

// word is the first 8 bytes as a number of this machine, as atomics take it.
func (m memory) word() uint64 { return binary.NativeEndian.Uint64(m.mr.Bytes()) }

func (m memory) report() {
	h := fnv.New64a()
	h.Write(m.mr.Bytes()[:m.length])
	fmt.Printf("sum %016x\nword %016x\n", h.Sum64(), m.word())
}
