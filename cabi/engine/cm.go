// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"net/netip"
	"sync"
	"syscall"

	"verbena/ib"
	"verbena/rdmacm"
)

// Identifiers and their channels. rdmacm says in order and on its own
// goroutine what happened to an identifier (pass, under the identifier's lock);
// each event becomes a record in the channel's pipe (cmrecord.go).
//
// Lock order: rdmacm.ID's → cmMu. So nothing of rdmacm is called with cmMu held.
var (
	cmMu       sync.Mutex
	cmChannels = table[cmChannel]{kind: kindCM}
	cmIDs      = table[cmID]{kind: kindCM + 1}
	cmOf       = map[*rdmacm.ID]*cmID{} // guarded by cmMu
)

// A cmChannel is the write end of an event channel's pipe.
type cmChannel struct {
	// immutable
	fd   int
	rdma *rdmacm.EventChannel
	// guarded by cmMu
	owed    []cmRecord // did not fit into the pipe
	writing bool       // the goroutine that writes them is there
	closed  bool
}

// A cmID is an identifier.
type cmID struct {
	// immutable
	handle handle
	rdma   *rdmacm.ID
	// guarded by cmMu
	channel *cmChannel
	cookie  uint64                // 0 until the front has adopted the identifier of a request, to which nothing happens before
	gone    bool                  // no event is written any more
	groups  map[netip.Addr]uint64 // what the front calls its multicast joins
	qp      handle                // 0 without
	streams bool                  // of iWARP: see lend
	qpType  ib.QPType             // of the queue pair that the front drives by itself
}

// cmContext keeps a device open from the first identifier on, so that what
// the environment says of devices holds also where no context was opened before.
var cmContext = sync.OnceValue(func() error {
	name := ""
	if err := configureLinks(); err != nil {
		return err
	}
	if list, err := selection().List(); err == nil && len(list) > 0 {
		name = list[0].Name
	}
	_, err := openDevice(name)
	return err
})

//export vb_cm_channel_create
func vb_cm_channel_create(fd C.int, channel *C.vb_handle) C.int {
	ensureStack()
	c := &cmChannel{fd: int(fd)}
	c.rdma = rdmacm.NewEventChannelTo(c.pass)
	h, err := cmChannels.put(c)
	if err == nil {
		nonblocking(c.fd)
		*channel = C.vb_handle(h)
	}
	return C.int(errnoOf("rdma_create_event_channel", err))
}

//export vb_cm_channel_destroy
func vb_cm_channel_destroy(channel C.vb_handle) C.int {
	c := cmChannels.get(handle(channel))
	if c == nil || !cmChannels.remove(handle(channel)) {
		return C.int(errnoOf("rdma_destroy_event_channel", noObject("event channel")))
	}
	c.rdma.Close()
	cmMu.Lock()
	c.closed = true
	children := c.drop(func(*cmRecord) bool { return true })
	cmMu.Unlock()
	destroyAll(children)
	return 0
}

//export vb_cm_id_create
func vb_cm_id_create(channel C.vb_handle, ps C.int, cookie C.vb_cookie, id *C.vb_handle) C.int {
	h, err := createID(cmChannels.get(handle(channel)), int(ps), uint64(cookie))
	if err == nil {
		*id = C.vb_handle(h)
	}
	return C.int(errnoOf("rdma_create_id", err))
}

func createID(c *cmChannel, ps int, cookie uint64) (handle, error) {
	if c == nil {
		return 0, noObject("event channel")
	}
	if err := cmContext(); err != nil {
		return 0, err
	}
	if ps < 0 || ps > 0xffff {
		return 0, invalid("port space %d", ps)
	}
	r, err := rdmacm.NewID(c.rdma, rdmacm.PortSpace(ps))
	if err != nil {
		return 0, err
	}
	if err = r.SetDevices(selection()); err != nil {
		_ = r.Destroy() // it was just made; the error that counts is the first
		return 0, err
	}
	cmMu.Lock()
	o, err := addID(c, r, cookie)
	cmMu.Unlock()
	if err != nil {
		_ = r.Destroy() // it was just made; the error that counts is the first
		return 0, err
	}
	return o.handle, nil
}

// addID gives an identifier a handle. cmMu is held.
func addID(c *cmChannel, r *rdmacm.ID, cookie uint64) (*cmID, error) {
	o := &cmID{rdma: r, channel: c, cookie: cookie, groups: map[netip.Addr]uint64{}, qpType: ib.QPTypeRC}
	if r.PortSpace() == rdmacm.UDP || r.PortSpace() == rdmacm.IPoIB {
		o.qpType = ib.QPTypeUD
	}
	h, err := cmIDs.put(o)
	if err != nil {
		return nil, err
	}
	o.handle = h
	cmOf[r] = o
	return o, nil
}

//export vb_cm_id_adopt
func vb_cm_id_adopt(id C.vb_handle, cookie C.vb_cookie) C.int {
	return withID("rdma_get_cm_event", id, func(o *cmID) error {
		cmMu.Lock()
		if o.cookie != 0 || cookie == 0 {
			cmMu.Unlock()
			return syscall.EINVAL
		}
		o.cookie = uint64(cookie)
		c := o.channel
		cmMu.Unlock()
		// The request may have come by a channel that its listener has left since.
		return o.rdma.Migrate(c.rdma)
	})
}

//export vb_cm_id_destroy
func vb_cm_id_destroy(id C.vb_handle) C.int {
	return withID("rdma_destroy_id", id, func(o *cmID) error {
		// A queue pair that is still there goes on without: as with rdma-core, where
		// it is the application's mistake and no error.
		o.rdma.ReleaseQP()
		return o.destroy()
	})
}

// destroy ends an identifier, and those of requests to it that C has not seen.
func (o *cmID) destroy() error {
	if err := o.rdma.Destroy(); err != nil {
		return err
	}
	cmIDs.remove(o.handle)
	cmMu.Lock()
	o.gone = true
	delete(cmOf, o.rdma)
	children := o.channel.drop(func(r *cmRecord) bool { return r.of == o })
	cmMu.Unlock()
	destroyAll(children)
	return nil
}

func destroyAll(ids []*cmID) {
	for _, o := range ids {
		_ = o.destroy() // C has not seen it: it cannot have a queue pair
	}
}

//export vb_cm_set_type
func vb_cm_set_type(id C.vb_handle, t C.enum_ibv_qp_type) C.int {
	return withID("rdma_create_qp", id, func(o *cmID) error {
		switch qt := ib.QPType(small(uint32(t))); qt {
		case ib.QPTypeRC, ib.QPTypeUC, ib.QPTypeUD, ib.QPTypeXRCSend, ib.QPTypeXRCRecv:
			cmMu.Lock()
			o.qpType = qt
			cmMu.Unlock()
			if o.rdma.PortSpace() == rdmacm.IB { // the others' says it
				return o.rdma.SetQPType(qt)
			}
			return nil
		}
		return invalid("queue pairs of type %d", uint32(t))
	})
}

// driven returns the type of the queue pair that the front drives by itself.
func (o *cmID) driven() ib.QPType {
	cmMu.Lock()
	defer cmMu.Unlock()
	return o.qpType
}

//export vb_cm_migrate
func vb_cm_migrate(id, channel C.vb_handle) C.int {
	return withID("rdma_migrate_id", id, func(o *cmID) error {
		to := cmChannels.get(handle(channel))
		if to == nil {
			return noObject("event channel")
		}
		// What is raised between the two goes to the new channel behind what is
		// owed, as write looks at o.channel under cmMu.
		cmMu.Lock()
		from := o.channel
		if from != to {
			o.channel = to
			var mine []cmRecord
			from.owed, mine = split(from.owed, func(r *cmRecord) bool { return r.of == o })
			for _, r := range mine {
				to.put(r)
			}
		}
		cmMu.Unlock()
		return o.rdma.Migrate(to.rdma)
	})
}

// withID calls f with an identifier and returns the errno.
func withID(call string, id C.vb_handle, f func(*cmID) error) C.int {
	o := cmIDs.get(handle(id))
	if o == nil {
		return C.int(errnoOf(call, noObject("identifier")))
	}
	return C.int(errnoOf(call, f(o)))
}
