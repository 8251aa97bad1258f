// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// refusal is a request that was refused before the application has seen it.
type refusal struct {
	kind        Kind
	local, peer netip.AddrPort // port 0: unknown
	peerQPN     ib.QPN         // 0: the request names none
	why         reason
}

// reason is why a request was refused.
type reason string

func (r reason) Error() string { return string(r) }

const (
	nobodyListens  reason = "nobody listens"
	listenerClosed reason = "the listener was closed"
	noIdentifier   reason = "no identifier can be made for it"
)

// reasonOf returns a reason that is sent to the peer.
func reasonOf(r cm.Reason) reason {
	if r == cm.RejInvalidServiceID {
		return nobodyListens
	}
	return reason(r.String())
}

// refusals has the requests that were refused, for the log. The manager's goroutine writes them,
// without a lock.
type refusals struct {
	list   []refusal
	second int64 // of the process's clock, in which count were noted
	count  int
}

// maxRefusals bounds the lines of a second: any host may send such requests.
const maxRefusals = 16

// noteRefusal has the goroutine write a refusal, if there is a log. The caller does not hold mu.
func (m *manager) noteRefusal(r refusal) {
	if !core.Logs() {
		return
	}
	m.mu.Lock()
	noted := m.noteRefusalLocked(r)
	m.mu.Unlock()
	if noted { // strangers do not wake the goroutine more often than it writes lines
		m.kick()
	}
}

// noteRefusalLocked is noteRefusal where there is a log, for a caller that holds mu and kicks the
// goroutine. It reports whether the refusal will be a line.
func (m *manager) noteRefusalLocked(r refusal) (noted bool) {
	n := &m.refusals
	if now := int64(monotime.Now()) / int64(monotime.Second); now != n.second {
		n.second, n.count = now, 0
	}
	if n.count++; n.count > maxRefusals {
		return false
	}
	n.list = append(n.list, r)
	return true
}

// logRefusals writes the requests that were refused since it was called last.
func (m *manager) logRefusals() {
	m.mu.Lock()
	list := m.refusals.list
	m.refusals.list = nil
	m.mu.Unlock()
	for _, r := range list {
		core.LogConnection(m.deviceAt(r.kind, r.local.Addr()), &core.ConnEvent{
			Type: "request refused", Local: r.local, Peer: r.peer, PeerQPN: r.peerQPN, Err: r.why})
	}
}

// deviceAt returns the name of the device of a kind that has an address, "" if there is none. It
// opens no device.
func (m *manager) deviceAt(kind Kind, addr netip.Addr) string {
	m.mu.Lock()
	at := m.found[portKey{kind, addr}]
	m.mu.Unlock()
	if at.verbs != nil {
		return at.verbs.Info().Name
	}
	infos, _ := devicesOf(kind)
	for _, info := range infos {
		addrs, _ := info.Addrs() // fails if the interface has just gone
		for _, a := range addrs {
			if a.WithZone("") == addr.WithZone("") {
				return info.Name
			}
		}
	}
	return ""
}
