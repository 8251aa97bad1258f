// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"fmt"
	"net/netip"
	"syscall"

	"verbena/internal/device"
	"verbena/internal/wire/cm"
)

// fail returns an error that names the argument or call at fault and wraps the
// errno that librdmacm returns.
func fail(errno syscall.Errno, arg, format string, a ...any) error {
	return &device.Error{Arg: arg, Why: fmt.Sprintf(format, a...), Err: errno}
}

func invalid(arg, format string, a ...any) error { return fail(syscall.EINVAL, arg, format, a...) }

// RejectReason is the reason in the peer's REJ: why it refused a connection.
type RejectReason = cm.Reason

// Reasons that an application meets.
const (
	RejectConsumer   = cm.RejConsumer         // the peer's application called Reject
	RejectNoListener = cm.RejInvalidServiceID // the port has no listener
	// the peer has an older connection of the queue pair
	RejectStale     = cm.RejStaleConnection
	RejectTimeout   = cm.RejTimeout              // the peer gave up waiting for our answer
	RejectTransport = cm.RejInvalidTransportType // the listener is for another type of queue pairs
	// the peer's port is narrower than the path MTU asked for
	RejectMTU = cm.RejInvalidMTU
)

// SIDRStatus is the reason for which a datagram service's port is not served.
type SIDRStatus = cm.SIDRStatus

// UnservedError is the Err of an UNREACHABLE event whose peer does not serve the port of a datagram
// service. It wraps ECONNREFUSED.
type UnservedError struct {
	Status SIDRStatus
	Peer   netip.AddrPort // that was asked
}

func (e *UnservedError) Error() string {
	if e.Status == cm.SIDRUnsupported {
		return fmt.Sprintf("nobody listens at %v", e.Peer)
	}
	return fmt.Sprintf("%v does not serve it: %v", e.Peer, e.Status)
}

// Unwrap returns ECONNREFUSED.
func (e *UnservedError) Unwrap() error { return syscall.ECONNREFUSED }

// RejectedError is the Err of a REJECTED event. It wraps ECONNREFUSED.
type RejectedError struct {
	Reason      RejectReason
	PrivateData []byte         // the peer's
	Peer        netip.AddrPort // that was to be connected
}

func (e *RejectedError) Error() string {
	switch e.Reason {
	case RejectNoListener:
		return fmt.Sprintf("nobody listens at %v", e.Peer)
	case RejectConsumer:
		return fmt.Sprintf("%v has rejected the connection", e.Peer)
	}
	return fmt.Sprintf("%v has rejected the connection: %v", e.Peer, e.Reason)
}

// Unwrap returns ECONNREFUSED.
func (e *RejectedError) Unwrap() error { return syscall.ECONNREFUSED }
