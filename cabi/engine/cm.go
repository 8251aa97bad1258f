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
	"verbena/internal/sys/fdtrack"
	"verbena/rdmacm"
)

// Identifiers and their channels. rdmacm reports the events of an identifier in order, on a
// goroutine of its own and with the lock of the identifier held (pass). Each event becomes a record
// in the pipe of the channel (cmrecord.go).
//
// Lock order: that of rdmacm.ID → cmMu. So no function of rdmacm is called with cmMu held.
var (
	cmMu       sync.Mutex
	cmChannels = table[cmChannel]{kind: kindCMChannel}
	cmIDs      = table[cmID]{kind: kindCMID}
	cmOf       = map[*rdmacm.ID]*cmID{} // guarded by cmMu
)

// A cmChannel is the write end of an event channel's pipe.
type cmChannel struct {
	// immutable
	fd   int
	rdma *rdmacm.EventChannel
	// guarded by cmMu
	owed    []cmRecord // records that did not fit into the pipe
	writing bool       // a goroutine writes them
	closed  bool
}

// A cmID represents an rdma_cm_id.
type cmID struct {
	// immutable
	handle handle
	rdma   *rdmacm.ID
	// guarded by cmMu
	channel *cmChannel
	cookie  uint64                // 0 until the front adopts the identifier of a request
	gone    bool                  // no more events are written
	groups  map[netip.Addr]uint64 // the cookies of multicast joins
	qp      handle                // 0 without
	streams bool                  // its device is iWARP: see lend
	qpType  ib.QPType             // type of a queue pair that the front drives by itself
}

// cmContext opens a device with the first identifier and keeps it open. So the environment
// variables apply also before the application opens a context.
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

func cmChannelCreate(fd C.int, channel *C.vb_handle) error {
	c := &cmChannel{fd: int(fd)}
	c.rdma = rdmacm.NewEventChannelTo(c.pass)
	err := cmChannels.give(channel, c, func() error { return nil })
	if err == nil {
		nonblocking(c.fd)
	}
	return err
}

func (c *cmChannel) destroy() error {
	c.rdma.Close()
	cmMu.Lock()
	c.closed = true
	children := c.drop(func(*cmRecord) bool { return true })
	cmMu.Unlock()
	destroyAll(children)
	return nil
}

func (c *cmChannel) idCreate(ps C.int, cookie C.vb_cookie, id *C.vb_handle) error {
	h, err := createID(c, int(ps), uint64(cookie))
	if err == nil {
		*id = C.vb_handle(h)
	}
	return err
}

func createID(c *cmChannel, ps int, cookie uint64) (handle, error) {
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

// addID gives an identifier a handle. The caller holds cmMu.
func addID(c *cmChannel, r *rdmacm.ID, cookie uint64) (*cmID, error) {
	o := &cmID{
		rdma: r, channel: c, cookie: cookie, groups: map[netip.Addr]uint64{}, qpType: ib.QPTypeRC,
	}
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

//export vb_cm_watch
func vb_cm_watch(epoll C.int) C.int {
	fdtrack.Add(int(epoll)) // a child of a fork closes it
	err := rdmacm.Watch(int(epoll))
	if err != nil {
		fdtrack.Remove(int(epoll))
	}
	return C.int(errnoOf("rdma_get_cm_event", err))
}

//export vb_cm_serve
func vb_cm_serve() { rdmacm.Serve() }

func (o *cmID) adopt(cookie C.vb_cookie) error {
	cmMu.Lock()
	if o.cookie != 0 || cookie == 0 {
		cmMu.Unlock()
		return syscall.EINVAL
	}
	o.cookie = uint64(cookie)
	c := o.channel
	cmMu.Unlock()
	// The listener may have moved to another channel since the request.
	return o.rdma.Migrate(c.rdma)
}

// destroy does rdma_destroy_id. A queue pair that still exists goes on without the identifier. With
// rdma-core, too, this is an error of the application that is not reported.
func (o *cmID) destroy() error {
	o.rdma.ReleaseQP()
	return o.end()
}

// end destroys an identifier, and those of its requests that C has not seen.
func (o *cmID) end() error {
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
		_ = o.end() // C has not seen it: it cannot have a queue pair
	}
}

func (o *cmID) setType(t C.enum_ibv_qp_type) error {
	switch qt := ib.QPType(small(uint32(t))); qt {
	case ib.QPTypeRC, ib.QPTypeUC, ib.QPTypeUD, ib.QPTypeXRCSend, ib.QPTypeXRCRecv:
		cmMu.Lock()
		o.qpType = qt
		cmMu.Unlock()
		if o.rdma.PortSpace() == rdmacm.IB { // other port spaces imply the type
			return o.rdma.SetQPType(qt)
		}
		return nil
	}
	return invalid("queue pairs of type %d", uint32(t))
}

// driven returns the type of the queue pair that the front drives by itself.
func (o *cmID) driven() ib.QPType {
	cmMu.Lock()
	defer cmMu.Unlock()
	return o.qpType
}

func (o *cmID) migrate(channel C.vb_handle) error {
	to := cmChannels.get(handle(channel))
	if to == nil {
		return cmChannels.none()
	}
	// Later events go to the new channel, behind those that are moved: write reads o.channel with
	// cmMu held.
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
}
