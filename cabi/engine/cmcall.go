// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"unsafe"

	"verbena/ib"
	"verbena/rdmacm"
)

func (o *cmID) bind(addr *C.struct_sockaddr) error {
	a, err := addrOf(addr)
	if err != nil {
		return err
	}
	return o.rdma.BindAddr(a)
}

// resolveAddr reads the routing tables, which takes no time. So it ignores the time-out: the kernel
// resolves neighbours when packets are sent.
func (o *cmID) resolveAddr(src, dst *C.struct_sockaddr, _ C.int) error {
	to, err := addrOf(dst)
	if err != nil {
		return err
	}
	if src == nil {
		return o.rdma.ResolveAddr(context.Background(), noAddr, to)
	}
	from, err := addrOf(src)
	if err != nil {
		return err
	}
	return o.rdma.ResolveAddr(context.Background(), from, to)
}

func (o *cmID) resolveRoute(C.int) error { return o.rdma.ResolveRoute() }

func (o *cmID) listen(backlog C.int) error {
	// An unbound identifier listens at all IPv4 addresses, as in Linux. A bound one stays as it is:
	// this call then fails.
	_ = o.rdma.BindAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
	return o.rdma.Listen(int(backlog))
}

func (o *cmID) connect(param *C.struct_rdma_conn_param, ece *C.struct_ibv_ece) error {
	p, err := connParam(param)
	if err != nil {
		return err
	}
	p.QPType, p.ECE = o.driven(), eceOf(ece)
	if err = o.lend(p.QPN); err != nil {
		return err
	}
	return o.rdma.Connect(&p)
}

func (o *cmID) accept(param *C.struct_rdma_conn_param, ece *C.struct_ibv_ece) error {
	p, err := connParam(param)
	if err == nil {
		err = o.lend(p.QPN)
	}
	if err != nil {
		return err
	}
	p.ECE = eceOf(ece)
	return o.tooLate(o.rdma.Accept(&p))
}

func eceOf(e *C.struct_ibv_ece) ib.ECE {
	return ib.ECE{VendorID: uint32(e.vendor_id), Options: uint32(e.options)}
}

// tooLate returns the errno of the kernel for an answer to a request whose peer has given up:
// ib_send_cm_rep and ib_send_cm_rej return EINVAL, siw_accept ECONNRESET.
func (o *cmID) tooLate(err error) error {
	if errors.Is(err, syscall.ECONNRESET) && !o.rdma.Kind().IsIWARP() {
		return fmt.Errorf("%w: %w", syscall.EINVAL, err)
	}
	return err
}

// connParam reads the parameters of a connection. NULL stands for the largest values, as in
// rdma-core.
//
// Errors: EINVAL for more READs and atomics than the device supports: rdma_connect(3).
func connParam(c *C.struct_rdma_conn_param) (rdmacm.ConnParam, error) {
	if c == nil {
		return rdmacm.ConnParam{
			ResponderResources: rdmacm.MaxRdAtomic, InitiatorDepth: rdmacm.MaxRdAtomic,
			RetryCount: 7, RNRRetryCount: 7,
		}, nil
	}
	for _, n := range []C.uint8_t{c.responder_resources, c.initiator_depth} {
		if n > maxRdAtomic && n != rdmacm.MaxRdAtomic {
			err := invalid("%d READs and atomics: the device does %d", n, maxRdAtomic)
			return rdmacm.ConnParam{}, err
		}
	}
	return rdmacm.ConnParam{
		PrivateData:        bytesAt(c.private_data, c.private_data_len),
		ResponderResources: uint8(c.responder_resources),
		InitiatorDepth:     uint8(c.initiator_depth),
		FlowControl:        c.flow_control != 0,
		RetryCount:         min(uint8(c.retry_count), 7), // as in Linux, this and the next
		RNRRetryCount:      min(uint8(c.rnr_retry_count), 7),
		SRQ:                c.srq != 0, QPN: ib.QPN(c.qp_num),
	}, nil
}

// maxRdAtomic is the device attribute max_qp_rd_atom.
const maxRdAtomic = 128

// bytesAt copies private data.
func bytesAt(p unsafe.Pointer, n C.uint8_t) []byte {
	if p == nil || n == 0 {
		return nil
	}
	return C.GoBytes(p, C.int(n))
}

func (o *cmID) establish() error { return o.rdma.Establish() }

func (o *cmID) reject(priv unsafe.Pointer, length C.uint8_t) error {
	return o.tooLate(o.rdma.Reject(bytesAt(priv, length)))
}

func (o *cmID) rejectECE(priv unsafe.Pointer, length C.uint8_t) error {
	return o.tooLate(o.rdma.RejectECE(bytesAt(priv, length)))
}

func (o *cmID) disconnect() error { return o.rdma.Disconnect() }

func (o *cmID) notify(event C.enum_ibv_event_type) error {
	if event > C.IBV_EVENT_WQ_FATAL {
		return invalid("event %d", event)
	}
	o.rdma.Notify(ib.EventType(event))
	return nil
}

func (o *cmID) setOption(level, name C.int, value unsafe.Pointer, length C.size_t) error {
	if value == nil {
		return syscall.EINVAL
	}
	switch level {
	case C.RDMA_OPTION_ID:
		return o.setIDOption(name, unsafe.Slice((*byte)(value), length))
	case C.RDMA_OPTION_IB:
		if name != C.RDMA_OPTION_IB_PATH {
			return syscall.ENOSYS
		}
		// The path of a RoCE address is its IP route. As in Linux, only the form of the records is
		// checked.
		if length == 0 || length%C.sizeof_struct_ibv_path_data != 0 {
			return syscall.EINVAL
		}
		return o.rdma.ResolveRoute()
	}
	return syscall.ENOSYS
}

func (o *cmID) setIDOption(name C.int, value []byte) error {
	size := 1
	if name == C.RDMA_OPTION_ID_REUSEADDR || name == C.RDMA_OPTION_ID_AFONLY {
		size = C.sizeof_int
	}
	if name < C.RDMA_OPTION_ID_TOS || name > C.RDMA_OPTION_ID_ACK_TIMEOUT {
		return syscall.ENOSYS
	}
	if len(value) != size {
		return invalid("%d bytes: the option has %d", len(value), size)
	}
	on := slices.ContainsFunc(value, func(b byte) bool { return b != 0 })
	switch name {
	case C.RDMA_OPTION_ID_ACK_TIMEOUT:
		return o.rdma.SetACKTimeout(value[0])
	case C.RDMA_OPTION_ID_REUSEADDR:
		return o.rdma.SetReuseAddr(on)
	case C.RDMA_OPTION_ID_AFONLY:
		return o.rdma.SetAFOnly(on)
	}
	o.rdma.SetTOS(value[0])
	return nil
}
