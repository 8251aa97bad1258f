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

//export vb_cm_bind
func vb_cm_bind(id C.vb_handle, addr *C.struct_sockaddr) C.int {
	return withID("rdma_bind_addr", id, func(o *cmID) error {
		a, err := addrOf(addr)
		if err != nil {
			return err
		}
		return o.rdma.BindAddr(a)
	})
}

// vb_cm_resolve_addr asks the routing tables, which answer at once: the time-out
// of ARP that rdma_resolve_addr(3) bounds is the kernel's business when packets
// are sent.
//
//export vb_cm_resolve_addr
func vb_cm_resolve_addr(id C.vb_handle, src, dst *C.struct_sockaddr) C.int {
	return withID("rdma_resolve_addr", id, func(o *cmID) error {
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
	})
}

//export vb_cm_resolve_route
func vb_cm_resolve_route(id C.vb_handle) C.int {
	return withID("rdma_resolve_route", id, func(o *cmID) error { return o.rdma.ResolveRoute() })
}

//export vb_cm_listen
func vb_cm_listen(id C.vb_handle, backlog C.int) C.int {
	return withID("rdma_listen", id, func(o *cmID) error {
		// Linux listens at all addresses of IPv4 where none was bound, and refuses this
		// where one was.
		_ = o.rdma.BindAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
		return o.rdma.Listen(int(backlog))
	})
}

//export vb_cm_connect
func vb_cm_connect(id C.vb_handle, param *C.struct_rdma_conn_param) C.int {
	return withID("rdma_connect", id, func(o *cmID) error {
		p, err := connParam(param)
		if err != nil {
			return err
		}
		p.QPType = o.driven()
		if err = o.lend(p.QPN); err != nil {
			return err
		}
		return o.rdma.Connect(&p)
	})
}

//export vb_cm_accept
func vb_cm_accept(id C.vb_handle, param *C.struct_rdma_conn_param) C.int {
	return withID("rdma_accept", id, func(o *cmID) error {
		p, err := connParam(param)
		if err == nil {
			err = o.lend(p.QPN)
		}
		if err != nil {
			return err
		}
		return o.tooLate(o.rdma.Accept(&p))
	})
}

// tooLate turns the error of an answer to a request whose peer has given up into the
// kernel's: ib_send_cm_rep and ib_send_cm_rej have EINVAL, siw_accept has ECONNRESET.
func (o *cmID) tooLate(err error) error {
	if errors.Is(err, syscall.ECONNRESET) && !o.rdma.Kind().IsIWARP() {
		return fmt.Errorf("%w: %w", syscall.EINVAL, err)
	}
	return err
}

// connParam reads the parameters of a connection; NULL stands for the most of
// everything, as rdma-core has it.
//
// Errors: EINVAL for more READs and atomics than the device does, as
// rdma_connect(3) has it.
func connParam(c *C.struct_rdma_conn_param) (rdmacm.ConnParam, error) {
	if c == nil {
		return rdmacm.ConnParam{
			ResponderResources: rdmacm.MaxRdAtomic, InitiatorDepth: rdmacm.MaxRdAtomic, RetryCount: 7, RNRRetryCount: 7,
		}, nil
	}
	for _, n := range []C.uint8_t{c.responder_resources, c.initiator_depth} {
		if n > maxRdAtomic && n != rdmacm.MaxRdAtomic {
			return rdmacm.ConnParam{}, invalid("%d READs and atomics: the device does %d", n, maxRdAtomic)
		}
	}
	return rdmacm.ConnParam{
		PrivateData:        bytesAt(c.private_data, c.private_data_len),
		ResponderResources: uint8(c.responder_resources), InitiatorDepth: uint8(c.initiator_depth), FlowControl: c.flow_control != 0,
		RetryCount: min(uint8(c.retry_count), 7), RNRRetryCount: min(uint8(c.rnr_retry_count), 7), // as Linux has it
		SRQ: c.srq != 0, QPN: ib.QPN(c.qp_num),
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

//export vb_cm_establish
func vb_cm_establish(id C.vb_handle) C.int {
	return withID("rdma_establish", id, func(o *cmID) error { return o.rdma.Establish() })
}

//export vb_cm_reject
func vb_cm_reject(id C.vb_handle, priv unsafe.Pointer, length C.uint8_t) C.int {
	return withID("rdma_reject", id, func(o *cmID) error { return o.tooLate(o.rdma.Reject(bytesAt(priv, length))) })
}

//export vb_cm_reject_ece
func vb_cm_reject_ece(id C.vb_handle, priv unsafe.Pointer, length C.uint8_t) C.int {
	return withID("rdma_reject_ece", id, func(o *cmID) error { return o.tooLate(o.rdma.RejectECE(bytesAt(priv, length))) })
}

//export vb_cm_disconnect
func vb_cm_disconnect(id C.vb_handle) C.int {
	return withID("rdma_disconnect", id, func(o *cmID) error { return o.rdma.Disconnect() })
}

//export vb_cm_notify
func vb_cm_notify(id C.vb_handle, event C.enum_ibv_event_type) C.int {
	return withID("rdma_notify", id, func(o *cmID) error {
		if event > C.IBV_EVENT_WQ_FATAL {
			return invalid("event %d", event)
		}
		o.rdma.Notify(ib.EventType(event))
		return nil
	})
}

//export vb_cm_set_option
func vb_cm_set_option(id C.vb_handle, level, name C.int, value unsafe.Pointer, length C.size_t) C.int {
	return withID("rdma_set_option", id, func(o *cmID) error {
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
			// The path of a RoCE address is its IP route: of the records only the form
			// is looked at, as Linux does.
			if length == 0 || length%C.sizeof_struct_ibv_path_data != 0 {
				return syscall.EINVAL
			}
			return o.rdma.ResolveRoute()
		}
		return syscall.ENOSYS
	})
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
