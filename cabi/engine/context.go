// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #cgo CFLAGS: -I${SRCDIR}/../include -std=gnu11 -Wall -Wextra
// #include "engine.h"
import "C"

import (
	"sync"
	"unsafe"

	"verbena/internal/core"
)

// opened counts the contexts of the process: the first one takes the options.
var opened struct {
	mu sync.Mutex
	n  int // guarded by mu
}

// openDevice opens a device as the environment says. closeDevice undoes it.
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
		options = e.options()
	}
	c, err := core.Open(name, options)
	if err != nil {
		return nil, ofVariable(err)
	}
	c.Engine().OnStranger(lookForGarbage)
	if opened.n++; e.capture != "" {
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

// newContext gives an open device a handle, whoever opened it.
func newContext(c *core.Context) (*ctxObject, handle, error) {
	o := &ctxObject{verbs: c, engine: c.Engine(), passed: make(chan struct{})}
	h, err := contexts.put(o)
	return o, h, err
}

//export vb_ctx_open
func vb_ctx_open(device *C.char, asyncFD C.int, ctx *C.vb_handle) C.int {
	ensureStack()
	c, err := openDevice(C.GoString(device))
	if err == nil {
		var o *ctxObject
		var h handle
		if o, h, err = newContext(c); err == nil {
			*ctx = C.vb_handle(h)
			go o.passEvents(int(asyncFD))
			return 0
		}
		closeDevice(c)
	}
	return C.int(errnoOf("ibv_open_device", err))
}

//export vb_ctx_close
func vb_ctx_close(ctx C.vb_handle) C.int {
	o := contexts.get(handle(ctx))
	if o == nil || !contexts.remove(handle(ctx)) {
		return C.int(errnoOf("ibv_close_device", noObject("context")))
	}
	o.closing.Store(true)
	err := closeDevice(o.verbs)
	o.events.Range(func(e, _ any) bool { // of queues that were not destroyed before
		if o.ownEvent(e.(*cqEvent)) {
			e.(*cqEvent).close()
		}
		return true
	})
	<-o.passed // the descriptors are the front's again
	return C.int(errnoOf("ibv_close_device", err))
}

//export vb_ctx_violations
func vb_ctx_violations(ctx C.vb_handle, pkey, qkey *C.uint32_t) C.int {
	o := contexts.get(handle(ctx))
	if o == nil {
		return C.int(errnoOf("ibv_query_port", noObject("context")))
	}
	a, err := o.verbs.QueryPort(1)
	if err == nil {
		*pkey, *qkey = C.uint32_t(a.BadPKeyCntr), C.uint32_t(a.QKeyViolCntr)
	}
	return C.int(errnoOf("ibv_query_port", err))
}

//export vb_progress
func vb_progress(ctx C.vb_handle, polls C.unsigned) {
	if o := contexts.get(handle(ctx)); o != nil {
		if o.engine.PollFor(uint64(max(polls, 1))) == 0 { // else the application looks first, and may answer
			o.engine.Flush()
		}
		o.engine.UpdateBoard()
	}
}

//export vb_news_board
func vb_news_board(ctx C.vb_handle) unsafe.Pointer {
	o := contexts.get(handle(ctx))
	if o == nil {
		return nil
	}
	return o.engine.Board().Memory()
}

//export vb_wake
func vb_wake(ctx C.vb_handle) {
	if o := contexts.get(handle(ctx)); o != nil {
		o.engine.Wake()
	}
}
