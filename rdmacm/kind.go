package rdmacm

import (
	"syscall"

	"verbena/internal/device"
)

// Kind is a kind of devices: the transport, and with it the connection manager's
// protocol.
type Kind = device.Kind

// Kinds.
const (
	RoCE  = device.KindRoCE  // RoCEv2, and the InfiniBand connection manager's messages: what an ID is for unless SetKind says otherwise
	IWARP = device.KindIWARP // iWARP over TCP, and MPA's set-up of streams: the TCP port space only
	TRP   = device.KindTRP   // iWARP over UDP, and TRP's own set-up: the TCP port space only, whose ports are UDP's here
)

// SetKind says which kind of devices the ID is for: one address may be that of
// a RoCE device and of an iWARP device.
//
// Errors: EINVAL once the ID is bound; EOPNOTSUPP for a kind that there is not,
// or that does not have the ID's port space.
func (id *ID) SetKind(k Kind) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("SetKind", stIdle); err != nil {
		return err
	}
	if k != RoCE && id.ps != TCP {
		return fail(syscall.EOPNOTSUPP, "kind", "%s has no port space %v", k, id.ps)
	}
	via := id.mgr.connector(id, k)
	if via == nil {
		return fail(syscall.EOPNOTSUPP, "kind", "%q: there is none of this name", k)
	}
	id.kind, id.via = k, via
	return nil
}

// connector returns an identifier's side of the protocol of a kind, nil if there
// is no such kind.
func (m *manager) connector(id *ID, k Kind) connector {
	switch k {
	case RoCE:
		return m.ib.newConnector(id)
	case IWARP:
		return m.iw.newConnector(id)
	case TRP:
		return m.trp.newConnector(id)
	}
	return nil
}

// Kind returns the kind of devices that the ID is for.
func (id *ID) Kind() Kind {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.kind
}
