// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/transport/ntb"
)

// ntbManager is the connection manager of NTB links in this process: the InfiniBand
// specification's, with MADs that go over the links. It also completes the lookups of
// ntbresolve.go.
type ntbManager struct {
	*ibManager
	links *ntbLinks

	lookups []*peerLookup // guarded by m.mu
}

func newNTBManager(m *manager, slot int, guid ib.GUID) *ntbManager {
	links := &ntbLinks{slot: slot}
	n := &ntbManager{ibManager: newIBManager(m, NTB, links, guid), links: links}
	links.onChange = n.linkChanged
	return n
}

func (n *ntbManager) has(ps PortSpace, t ib.QPType) bool {
	return ps != UDP && (t == 0 || t == ib.QPTypeRC)
}

func (n *ntbManager) attach(at localAddr) error { return n.links.attach(at.verbs) }

func (n *ntbManager) stop() {
	n.ibManager.stop()
	n.links.detachAll()
}

// linkChanged ends connections over a link that is lost: their queue pairs have failed. When it is
// back, requests made meanwhile are repeated.
func (n *ntbManager) linkChanged(l *ntbLink, c ntb.LinkChange) {
	n.m.mu.Lock()
	if !c.Up {
		n.agent.Lose(monotime.Now(), func(x *ibcm.Lost) bool { return l.lost(c, x) })
	} else {
		n.agent.Repeat()
	}
	n.m.mu.Unlock()
	n.m.kick()
}

func (n *ntbManager) serve(now monotime.Time) (next monotime.Time, busy bool) {
	next, busy = n.ibManager.serve(now)
	at, found := n.pollLookups(now)
	return min(next, at), busy || found
}

func (n *ntbManager) idleLocked() bool { return n.ibManager.idleLocked() && len(n.lookups) == 0 }
