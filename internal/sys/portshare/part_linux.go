// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"net/netip"
	"syscall"

	"verbena/internal/sys/udp"
)

// memberPart is a part of a member's slot at an address.
type memberPart struct {
	Addr netip.Addr `json:"addr"` // without zone
	Part int        `json:"part"`
}

// partSocket is a member's socket of a part.
type partSocket struct {
	*udp.Socket
	steered bool // the keeper has answered kindSteer
}

type memberParts map[memberPart]*partSocket

// maxMemberParts bounds the parts that a claim lists: it is one frame, with all keys.
const maxMemberParts = 64

// steered returns the parts for a claim.
func (ps memberParts) steered() (all []memberPart) {
	for at, p := range ps {
		if p.steered {
			all = append(all, at)
		}
	}
	return all
}

func (m *member) Part(addr netip.Addr, part int) (*udp.Socket, error) {
	addr = addr.Unmap()
	m.openMu.Lock()
	defer m.openMu.Unlock()
	at := memberPart{addr.WithZone(""), part}
	m.mu.Lock()
	p, full := m.parts[at], len(m.parts) == maxMemberParts
	m.mu.Unlock()
	switch {
	case p != nil:
		return p.Socket, nil
	case full:
		return nil, &PortError{Addr: addr, Err: syscall.ENOSPC}
	}
	s, err := m.given(frame{Kind: kindPart, Addr: addr, Part: part})
	if err != nil {
		return nil, err
	}
	s.SetReceiveBuffer(m.opt.Socket.BufferBytes)
	m.mu.Lock()
	over := m.role == left
	if !over {
		m.parts[at] = &partSocket{Socket: s}
	}
	m.mu.Unlock()
	if over {
		s.Close()
		return nil, errClosed
	}
	return s, m.reading(s)
}

func (m *member) SteerPart(addr netip.Addr, part int) error {
	addr = addr.Unmap()
	a, err := m.call(frame{Kind: kindSteer, Addr: addr, Part: part})
	if err == nil {
		err = a.refused(addr)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.parts[memberPart{addr.WithZone(""), part}]; p != nil {
		p.steered = true
	}
	return nil
}
