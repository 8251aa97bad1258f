// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"

	"verbena/internal/cm/ibcm"
	"verbena/internal/core"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// log writes an event of the ID to the log of the process's devices, if there is one. The caller
// holds mu, or the ID is that of a request that no goroutine else has yet.
func (id *ID) log(ev *Event) {
	if !core.Logs() {
		return
	}
	e := id.connEvent(ev.Type.String(), ev.Err)
	if id.qp != nil {
		e.QPN = id.qp.QPN()
	}
	core.LogConnection(id.deviceName(), e)
}

// logReject writes that the ID's request was refused, or why not. The caller holds mu.
func (id *ID) logReject(err error) {
	if core.Logs() {
		core.LogConnection(id.deviceName(), id.connEvent("rdma_reject", err))
	}
}

func (id *ID) connEvent(name string, err error) *core.ConnEvent {
	return &core.ConnEvent{Type: name, Local: id.local, Peer: id.peer, Err: err}
}

// deviceName returns the name of the ID's device, "" while it has none.
func (id *ID) deviceName() string {
	if id.at.verbs == nil {
		return ""
	}
	return id.at.verbs.Info().Name
}

// logRefusals writes which requests were refused before the application has seen them.
func (b *ibManager) logRefusals() {
	if !core.Logs() {
		return
	}
	b.m.mu.Lock()
	list := b.refusals.take()
	b.m.mu.Unlock()
	for _, r := range list {
		core.LogConnection("", &core.ConnEvent{Type: "request refused", Local: r.local,
			Peer: netip.AddrPortFrom(r.peer, 0), Err: refusal{r.why}})
	}
}

// refusal is the reason of a refused request.
type refusal struct{ cm.Reason }

func (r refusal) Error() string {
	if r.Reason == cm.RejInvalidServiceID {
		return "nobody listens"
	}
	return r.String()
}

// refusals has the requests that were refused, for the log. The manager's goroutine writes them,
// without a lock. Guarded by manager.mu.
type refusals struct {
	list   []refused
	second int64 // of the process's clock, in which count were noted
	count  int
}

type refused struct {
	local netip.AddrPort
	peer  netip.Addr
	why   cm.Reason
}

// maxRefusals bounds the lines of a second: any host may send such requests.
const maxRefusals = 16

func (r *refusals) note(path ibcm.Path, service cm.ServiceID, why cm.Reason) {
	if !core.Logs() {
		return
	}
	if now := int64(monotime.Now()) / int64(monotime.Second); now != r.second {
		r.second, r.count = now, 0
	}
	if r.count++; r.count <= maxRefusals {
		local := netip.AddrPortFrom(path.Local, service.Port())
		r.list = append(r.list, refused{local, path.Remote, why})
	}
}

// take returns the refusals since it was last called.
func (r *refusals) take() (list []refused) {
	list, r.list = r.list, nil
	return list
}
