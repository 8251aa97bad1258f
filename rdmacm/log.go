// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import "verbena/internal/core"

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
