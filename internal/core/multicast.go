// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"net/netip"
	"sync"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/transport/roce"
)

// mcastMemberships are the groups a queue pair is attached to.
type mcastMemberships struct {
	mu     sync.Mutex
	groups map[netip.Addr]struct{}
}

// AttachMulticast makes a UD queue pair receive messages to a multicast group: ibv_attach_mcast(3).
func (q *QP) AttachMulticast(gid ib.GID) (err error) {
	defer func() {
		q.ctx.logCall("ibv_attach_mcast", err, "qpn", text{q.QPN()}, "gid", text{gid})
	}()
	if err := q.checkMulticast(gid); err != nil {
		return err
	}
	q.mcast.mu.Lock()
	defer q.mcast.mu.Unlock()
	if q.gone.Load() { // read under mu, which leaveAll takes
		return invalid("QP", "was destroyed")
	}
	group := gid.Addr()
	if err := roce.Of(q.ctx.eng).Attach(q.conn, group, q.ctx.info.Index); err != nil {
		return &device.Error{Arg: "gid", Why: err.Error(), Err: errnoOf(err, syscall.EINVAL)}
	}
	if q.mcast.groups == nil {
		q.mcast.groups = map[netip.Addr]struct{}{}
	}
	q.mcast.groups[group] = struct{}{}
	return nil
}

// DetachMulticast undoes AttachMulticast: ibv_detach_mcast(3).
func (q *QP) DetachMulticast(gid ib.GID) (err error) {
	defer func() {
		q.ctx.logCall("ibv_detach_mcast", err, "qpn", text{q.QPN()}, "gid", text{gid})
	}()
	if err := q.checkMulticast(gid); err != nil {
		return err
	}
	q.mcast.mu.Lock()
	defer q.mcast.mu.Unlock()
	group := gid.Addr()
	if _, ok := q.mcast.groups[group]; !ok {
		return invalid("gid", "the queue pair is not attached to %v", group)
	}
	delete(q.mcast.groups, group)
	roce.Of(q.ctx.eng).Detach(q.conn, group, q.ctx.info.Index)
	return nil
}

func (q *QP) checkMulticast(gid ib.GID) error {
	switch {
	case q.init.Type != ib.QPTypeUD:
		return invalid("QP", "is %v: only UD queue pairs take multicast", q.init.Type)
	case !gid.IsMulticast():
		return invalid("gid", "%v is no multicast address", gid.Addr())
	}
	return nil
}

// attached returns to how many groups the queue pair is attached.
func (m *mcastMemberships) attached() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.groups)
}

func (m *mcastMemberships) leaveAll(q *QP) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for g := range m.groups {
		roce.Of(q.ctx.eng).Detach(q.conn, g, q.ctx.info.Index)
	}
	m.groups = nil
}
