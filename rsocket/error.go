// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"verbena/ib"
)

var errNoRsocket = errors.New("the peer is no rsocket")

// timeoutError is an error by which time is up. It may wrap several.
type timeoutError struct{ error }

func (e timeoutError) Unwrap() error { return e.error }

// Timeout is for net.Error.
func (timeoutError) Timeout() bool { return true }

// timed returns err, as a timeoutError where that fits.
func timed(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) {
		return timeoutError{err}
	}
	return err
}

// opError returns an error as those of package net. source and addr may be nil.
func opError(op, network string, source, addr *Addr, err error) error {
	e := &net.OpError{Op: op, Net: network, Err: err}
	if source != nil {
		e.Source = source
	}
	if addr != nil {
		e.Addr = addr
	}
	return e
}

// fail returns the error of a method: io.EOF as it is, as package net does.
func (c *Conn) fail(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return opError(op, string(c.kind), c.local, c.remote, err)
}

// statusError returns the error of a stream whose work request has failed.
func statusError(s ib.WCStatus) error {
	switch s {
	case ib.WCRetryExcErr, ib.WCRNRRetryExcErr:
		return syscall.ETIMEDOUT
	case ib.WCRemAccessErr, ib.WCRemOpErr, ib.WCRemInvReqErr, ib.WCRemAbortErr:
		return syscall.ECONNRESET
	case ib.WCLocLenErr:
		return syscall.EPROTO
	}
	return syscall.EIO
}
