// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/core"
)

//export vb_xrcd_open
func vb_xrcd_open(ctx C.vb_handle, fd, oflags C.int, xrcd *C.vb_handle) C.int {
	const call = "ibv_open_xrcd"
	o := contexts.get(handle(ctx))
	if o == nil {
		return C.int(errnoOf(call, noObject("context")))
	}
	x, err := openXRCD(o.verbs, int(fd), int(oflags))
	if err == nil {
		var h handle
		if h, err = xrcds.put(&xrcdObject{o, x}); err == nil {
			*xrcd = C.vb_handle(h)
			return 0
		}
		x.Close()
	}
	return C.int(errnoOf(call, err))
}

// openXRCD opens the domain of the application's descriptor, which stays the
// application's; -1 is none.
func openXRCD(c *core.Context, fd, flags int) (*core.XRCD, error) {
	if fd == -1 {
		return c.OpenXRCD(nil, flags)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	f := os.NewFile(uintptr(own), "XRC domain")
	defer f.Close()
	return c.OpenXRCD(f, flags)
}

//export vb_xrcd_close
func vb_xrcd_close(xrcd C.vb_handle) C.int {
	o := xrcds.get(handle(xrcd))
	if o == nil {
		return C.int(errnoOf("ibv_close_xrcd", noObject("XRCD")))
	}
	err := o.verbs.Close()
	if err == nil {
		xrcds.remove(handle(xrcd))
	}
	return C.int(errnoOf("ibv_close_xrcd", err))
}

//export vb_qp_open
func vb_qp_open(xrcd C.vb_handle, num C.uint32_t, cookie C.vb_cookie, qp *C.vb_handle) C.int {
	o := xrcds.get(handle(xrcd))
	if o == nil {
		return C.int(errnoOf("ibv_open_qp", noObject("XRCD")))
	}
	q, err := o.verbs.OpenQP(ib.QPN(num))
	if err == nil {
		err = giveQP(o.ctx, q, cookie, qp)
	}
	return C.int(errnoOf("ibv_open_qp", err))
}
