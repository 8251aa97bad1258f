// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
// #include "order.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"errors"
	"syscall"
	"unsafe"

	"verbena/ib"
	"verbena/rdmacm"
)

// A cmRecord represents an event for C. Its pointer is written into the pipe, and the thread that
// reads it frees it.
type cmRecord struct {
	event *C.struct_vb_cm_event
	of    *cmID // the identifier of the event
	child *cmID // the new identifier of a CONNECT_REQUEST
}

// pass takes an event from rdmacm.
func (c *cmChannel) pass(ev *rdmacm.Event) {
	if !take(ev) && ev.Type == rdmacm.ConnectRequest {
		_ = ev.ID.Destroy() // C has not seen it: it cannot have a queue pair
	}
}

// take writes an event. It returns false if C has no identifier for it. The identifier of a request
// gets no event before C has adopted it and accepted the request.
func take(ev *rdmacm.Event) bool {
	cmMu.Lock()
	defer cmMu.Unlock()
	id := ev.ID
	if ev.ListenID != nil {
		id = ev.ListenID
	}
	o := cmOf[id]
	if o == nil || o.gone {
		return false
	}
	if ev.Type == rdmacm.ConnectRequest {
		if _, err := addID(o.channel, ev.ID, 0); err != nil {
			errnoOf("rdma_get_cm_event", err)
			return false
		}
	}
	o.write(ev)
	return true
}

// write makes a record of an event. The caller holds cmMu.
func (o *cmID) write(ev *rdmacm.Event) {
	e := (*C.struct_vb_cm_event)(C.calloc(1, C.sizeof_struct_vb_cm_event))
	r := cmRecord{event: e, of: o}
	e.id = C.vb_cookie(o.cookie)
	e._type, e.status = C.uint32_t(ev.Type), C.int32_t(o.statusOf(ev.Err))
	if ev.Type == rdmacm.ConnectRequest {
		r.child = cmOf[ev.ID]
		e.new_id = C.vb_handle(r.child.handle)
	}
	if ev.Group.IsValid() {
		e.context = C.vb_cookie(o.groups[ev.Group])
		if ev.Type == rdmacm.MulticastError {
			delete(o.groups, ev.Group)
		}
	}
	private := privateOf(ev)
	if o.streams && ev.Type == rdmacm.Established {
		private = ev.PrivateData // that of the MPA Reply
	}
	n := C.uint8_t(copy(unsafe.Slice((*byte)(unsafe.Pointer(&e.priv[0])), len(e.priv)), private))
	at := unsafe.Pointer(&e.priv[0])
	if n == 0 {
		at = nil
	}
	if o.qpType == ib.QPTypeUD {
		e.is_ud = 1
		p := (*C.struct_rdma_ud_param)(unsafe.Pointer(&e.param))
		p.private_data, p.private_data_len = at, n
		p.qp_num, p.qkey = C.uint32_t(ev.UD.QPN), C.uint32_t(ev.UD.QKey)
		if ev.UD.QPN != 0 {
			p.ah_attr = cAHAttr(&ev.UD.AH)
		}
	} else {
		p := (*C.struct_rdma_conn_param)(unsafe.Pointer(&e.param))
		p.private_data, p.private_data_len = at, n
		p.responder_resources = C.uint8_t(ev.Conn.ResponderResources)
		p.initiator_depth = C.uint8_t(ev.Conn.InitiatorDepth)
		p.flow_control, p.srq = flag(ev.Conn.FlowControl), flag(ev.Conn.SRQ)
		p.retry_count = C.uint8_t(ev.Conn.RetryCount)
		p.rnr_retry_count = C.uint8_t(ev.Conn.RNRRetryCount)
		p.qp_num = C.uint32_t(ev.Conn.QPN)
		e.ece.vendor_id = C.uint32_t(ev.Conn.ECE.VendorID)
		e.ece.options = C.uint32_t(ev.Conn.ECE.Options)
	}
	o.channel.put(r)
}

// privateOf returns the private data that rdma_get_cm_event(3) passes on. It leaves out those of
// RTU, DREQ and DREP.
func privateOf(ev *rdmacm.Event) []byte {
	switch ev.Type {
	case rdmacm.ConnectRequest, rdmacm.ConnectResponse, rdmacm.Rejected:
		return ev.PrivateData
	case rdmacm.Established:
		// REP and SIDR_REP name the peer's queue pair.
		if ev.Conn.QPN != 0 || ev.UD.QPN != 0 {
			return ev.PrivateData
		}
	}
	return nil
}

// statusOf returns the status of an event: a negative errno or, if the peer gave a reason, that
// reason: rdma_get_cm_event(3). The Reply of MPA has no reason: as in iw_cm a refusal by the
// application is ECONNRESET, and one for want of a listener ECONNREFUSED. The caller holds cmMu.
func (o *cmID) statusOf(err error) int32 {
	var rejected *rdmacm.RejectedError
	var unserved *rdmacm.UnservedError
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &rejected) && o.streams && rejected.Reason == rdmacm.RejectConsumer:
		return -int32(syscall.ECONNRESET)
	case errors.As(err, &rejected) && o.streams:
		return -int32(syscall.ECONNREFUSED)
	case errors.As(err, &rejected):
		return int32(rejected.Reason)
	case errors.As(err, &unserved):
		return int32(unserved.Status)
	case errors.Is(err, context.DeadlineExceeded):
		return -int32(syscall.ETIMEDOUT)
	case errors.As(err, &errno):
		return -int32(errno)
	}
	return -int32(syscall.EIO)
}

// put writes a record, at once or behind the pending ones. The caller holds cmMu.
func (c *cmChannel) put(r cmRecord) {
	if c.closed {
		C.free(unsafe.Pointer(r.event)) // made by this thread
		return
	}
	C.vb_order_before(unsafe.Pointer(r.event))
	if len(c.owed) == 0 && writeRecord(c.fd, r.bytes()) {
		return
	}
	c.owed = append(c.owed, r)
	if !c.writing {
		c.writing = true
		go c.writeOwed()
	}
}

// bytes returns the record in the pipe: the pointer.
func (r *cmRecord) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&r.event)), unsafe.Sizeof(r.event))
}

// writeOwed writes pending records as the pipe gets room.
func (c *cmChannel) writeOwed() {
	for {
		waitWritable(c.fd)
		cmMu.Lock()
		for len(c.owed) > 0 && writeRecord(c.fd, c.owed[0].bytes()) {
			c.owed = c.owed[1:]
		}
		if len(c.owed) == 0 {
			c.owed, c.writing = nil, false
			cmMu.Unlock()
			return
		}
		cmMu.Unlock()
	}
}

// drop forgets pending records, and returns the new identifiers in them. The caller holds cmMu.
func (c *cmChannel) drop(match func(*cmRecord) bool) (children []*cmID) {
	var gone []cmRecord
	c.owed, gone = split(c.owed, match)
	for _, r := range gone {
		if r.child != nil {
			children = append(children, r.child)
		}
		C.vb_order_after(unsafe.Pointer(r.event))
		C.free(unsafe.Pointer(r.event))
	}
	return children
}

// split separates records for which match holds from the others, in order.
func split(all []cmRecord, match func(*cmRecord) bool) (rest, matched []cmRecord) {
	for _, r := range all {
		if match(&r) {
			matched = append(matched, r)
		} else {
			rest = append(rest, r)
		}
	}
	return rest, matched
}
