// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"log/slog"
	"os"

	"verbena/ib"
	"verbena/verbs"
)

// loopbackName returns the name of the loopback interface's device.
func loopbackName() string {
	dev := openLoopback()
	defer dev.Close()
	return dev.Info().Name
}

// A loop over completions sleeps while there is none.
func ExampleCQ_Completions() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	selfConnected(dev, qp)
	for id := range uint64(2) {
		must(qp.PostSend(verbs.SendWR{ID: id, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled}))
	}
	for wc, err := range cq.Completions(context.Background()) {
		done(err)
		if fmt.Println(wc.WRID, wc.Status); wc.WRID == 1 {
			break
		}
	}
	fmt.Println(cq.Destroy() != nil, "as the queue pair has it")
	done(qp.Destroy())
	done(cq.Destroy())
	_, err := cq.Poll(make([]ib.WC, 1))
	fmt.Println(err != nil, "as it is destroyed")
	// Output:
	// 0 success
	// 1 success
	// true as the queue pair has it
	// true as it is destroyed
}

// A block is registered already, and found by the number that its work request carries.
func ExamplePool() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	selfConnected(dev, qp)
	pool := must(pd.NewPool(4096, ib.AccessLocalWrite))

	in, out := must(pool.Get()), must(pool.Get())
	must(qp.PostRecv(verbs.RecvWR{ID: in.ID(), SGList: []ib.SGE{in.SGE(4096)}}))
	n := copy(out.Bytes(), "a message")
	must(qp.PostSend(verbs.SendWR{ID: out.ID(), Opcode: ib.WRSend, Flags: ib.SendSignaled,
		SGList: []ib.SGE{out.SGE(n)}}))
	for range 2 {
		wc := one(cq)
		block := pool.Block(wc.WRID)
		if wc.Opcode == ib.WCRecv {
			fmt.Printf("%s\n", block.Bytes()[:wc.ByteLen])
		}
		block.Release()
	}
	done(qp.Destroy())
	done(pool.Close())
	// Output: a message
}

// Every call is a line of the log, and every refused one a warning.
func ExampleWithLogger() {
	short := func(groups []string, a slog.Attr) slog.Attr {
		if groups == nil && (a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return a
		}
		return slog.Attr{}
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: short}))
	dev := must(verbs.Open(loopbackName(), verbs.WithLogger(log)))
	pd := must(dev.AllocPD())
	_, err := dev.CreateCQ(0, nil)
	fmt.Println(err)
	done(pd.Dealloc())
	done(dev.Close())
	// Output:
	// level=INFO msg=ibv_open_device
	// level=INFO msg=ibv_alloc_pd
	// level=WARN msg=ibv_create_cq
	// depth: 0: must be 1 to 4194304 (invalid argument)
	// level=INFO msg=ibv_dealloc_pd
	// level=INFO msg=ibv_close_device
}

// Package expvar shows devices, queue pairs and counters.
func ExampleVars() {
	vars := expvar.Func(verbs.Vars) // expvar.Publish("verbena", vars) has it at /debug/vars
	dev := openLoopback()
	defer dev.Close()
	var shown struct{ Devices []struct{ Name string } }
	done(json.Unmarshal([]byte(vars.String()), &shown))
	fmt.Println(len(shown.Devices), shown.Devices[0].Name == dev.Info().Name)
	// Output: 1 true
}

// VERBENA_LOG is for programs over the C libraries. A Go program that is to obey it opens a device
// with a logger of that level, before it uses rdmacm or rsocket.
func ExampleWithLogger_environment() {
	os.Setenv("VERBENA_LOG", "warn") // from the shell that starts the program
	var opts []verbs.Option
	if text := os.Getenv("VERBENA_LOG"); text != "" {
		var level slog.Level
		done(level.UnmarshalText([]byte(text))) // debug, info or warn
		opts = append(opts, verbs.WithLogger(slog.New(slog.NewTextHandler(os.Stderr,
			&slog.HandlerOptions{Level: level}))))
	}
	dev := must(verbs.Open(loopbackName(), opts...))
	defer dev.Close()
	fmt.Println(len(opts), "option")
	// Output: 1 option
}
