// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #cgo CFLAGS: -I${SRCDIR}/../include -std=gnu11 -Wall -Wextra
// #include "engine.h"
import "C"

import (
	"sync"

	"verbena/internal/core"
)

// opened counts the contexts of the process. The options apply to the first one.
var opened struct {
	mu sync.Mutex
	n  int // guarded by mu
}

// openDevice opens a device with the options of the environment. closeDevice undoes it.
func openDevice(name string) (*core.Context, error) {
	attendExit()
	tellRuntimeDir()
	e := env()
	if err := configureLinks(); err != nil {
		return nil, err
	}
	opened.mu.Lock()
	defer opened.mu.Unlock()
	var options *core.Options
	if opened.n == 0 {
		var err error
		if options, err = e.options(); err != nil {
			return nil, err
		}
	}
	c, err := core.Open(name, options)
	if err != nil {
		return nil, ofVariable(err)
	}
	c.Engine().OnStranger(lookForGarbage)
	c.Engine().OnRound(enoughProcessors)
	if opened.n++; e.capture != "" && e.ring == "" {
		flushing.Do(func() { go flushCapture() })
	}
	return c, nil
}

func closeDevice(c *core.Context) error {
	opened.mu.Lock()
	defer opened.mu.Unlock()
	opened.n--
	return c.Close()
}

func ctxOpen(device *C.char, asyncFD C.int, ctx *C.vb_handle) error {
	c, err := openDevice(C.GoString(device))
	if err != nil {
		return err
	}
	o := &ctxObject{verbs: c, engine: c.Engine(), passed: make(chan struct{})}
	if err = contexts.give(ctx, o, func() error { return closeDevice(c) }); err == nil {
		go o.passEvents(int(asyncFD))
	}
	return err
}

func (o *ctxObject) close() error {
	o.closing.Store(true)
	err := closeDevice(o.verbs)
	o.events.Range(func(e, _ any) bool { // those of queues that still exist
		if o.ownEvent(e.(*cqEvent)) {
			e.(*cqEvent).close()
		}
		return true
	})
	<-o.passed // from now on the front may close the descriptors
	return err
}

func (o *ctxObject) violations(pkey, qkey *C.uint32_t) error {
	a, err := o.verbs.QueryPort(1)
	if err == nil {
		*pkey, *qkey = C.uint32_t(a.BadPKeyCntr), C.uint32_t(a.QKeyViolCntr)
	}
	return err
}

//export vb_progress
func vb_progress(cq C.vb_handle, polls C.uint) {
	if o := cqs.get(handle(cq)); o != nil {
		lane := o.verbs.Lane()
		// If there are completions, the application polls them first and may answer them.
		if lane.PollFor(uint64(max(polls, 1))) == 0 {
			lane.Flush()
		}
		o.ctx.engine.UpdateBoard()
	}
}

func (o *ctxObject) board(board **C.struct_vb_board) error {
	*board = (*C.struct_vb_board)(o.engine.Board().Memory())
	return nil
}

//export vb_wake
func vb_wake(ctx C.vb_handle) {
	if o := contexts.get(handle(ctx)); o != nil {
		o.engine.Wake()
	}
}
