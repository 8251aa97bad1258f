// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"os"
	"time"
)

// reap waits until a slot has no owner or is connected again. If the owner is
// dead it sends its wills.
func (k *keeper) reap(slot int) {
	m := k.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if k.reaping[slot] || m.role == left {
		return
	}
	k.reaping[slot] = true
	m.gone.Add(1)
	go func() {
		defer m.gone.Done()
		k.awaitDeath(slot)
		m.mu.Lock()
		delete(k.reaping, slot)
		m.mu.Unlock()
	}()
}

func (k *keeper) awaitDeath(slot int) {
	m := k.m
	deadline := time.Now().Add(reapPatience)
	for p := (pause{}); time.Now().Before(deadline); p.wait() {
		m.mu.Lock()
		over := m.role == left || k.peers[slot] != nil
		m.mu.Unlock()
		if over {
			return
		}
		if !m.lock.try(slot) {
			continue
		}
		os.Remove(m.Meeting(slot))
		k.sendWills(takeWills(m.paths.willFile(slot)))
		m.mu.Lock()
		for _, g := range m.groups {
			g.disown(slot)
		}
		m.mu.Unlock()
		m.lock.unlock(slot)
		return
	}
}

// sendWills sends what a dead member left.
func (k *keeper) sendWills(wills []Will) {
	for _, w := range wills {
		if k.ensureGroup(w.Local) != nil {
			continue // the address is gone, or somebody else's by now
		}
		k.m.mu.Lock()
		g := k.m.groups[w.Local]
		k.m.mu.Unlock()
		if g != nil {
			g.sendWill(w)
		}
	}
}
