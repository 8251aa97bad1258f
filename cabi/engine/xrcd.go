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

func (o *ctxObject) xrcdOpen(fd, oflags C.int, xrcd *C.vb_handle) error {
	x, err := openXRCD(o.verbs, int(fd), int(oflags))
	if err != nil {
		return err
	}
	return xrcds.give(xrcd, &xrcdObject{o, x}, x.Close)
}

// openXRCD opens the domain of a descriptor, which remains that of the application; -1 is none.
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

func (o *xrcdObject) close() error { return o.verbs.Close() }

func (o *xrcdObject) qpOpen(num C.uint32_t, cookie C.vb_cookie, qp *C.vb_handle) error {
	q, err := o.verbs.OpenQP(ib.QPN(num))
	if err != nil {
		return err
	}
	return giveQP(qp, o.ctx, q, cookie, q.Destroy)
}
