// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"
)

// joinPatience bounds how long a joiner waits for a keeper to be found or to
// answer. A hand-over takes milliseconds; what lasts longer is a stopped process.
const joinPatience = 10 * time.Second

// slotPatience bounds how long a joiner looks for a slot when none is free: the
// keeper holds a dead member's for a moment, to send its wills.
const slotPatience = 200 * time.Millisecond

var errNoSlot = fmt.Errorf("share: all %d slots are taken, one by each process of this user that uses devices: end some (`verbena stat` shows them)", Slots-1)

// join finds the keeper and a slot, or becomes keeper of a new set.
func join(dir string, o Options) (Member, error) {
	ps, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	lock, err := openLock(ps.lock)
	if err != nil {
		return nil, err
	}
	watch, err := newWatch()
	if err != nil {
		lock.close()
		return nil, fmt.Errorf("share: %w", err)
	}
	m := &member{
		watch: watch,
		opt:   o, paths: ps, lock: lock,
		groups: map[netip.Addr]*group{}, keys: map[string]bool{}, calls: map[uint64]call{},
	}
	m.change.L = &m.mu
	deadline := time.Now().Add(joinPatience)
	for p := (pause{}); ; p.wait() {
		done, err := m.enter()
		if done {
			return m, nil
		}
		if err == errNoSlot && time.Until(deadline) > joinPatience-slotPatience {
			err = nil
		}
		if err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("share: processes that hold slots in %s do not answer: is one stopped?", filepath.Dir(ps.lock))
		}
		if err != nil {
			watch.close()
			lock.close()
			return nil, err
		}
	}
}

// enter makes one attempt to join; neither done nor an error means that another
// is worth while.
func (m *member) enter() (done bool, err error) {
	if l, err := dial(m.watch, m.paths.socket); err == nil {
		return m.enterAs(l)
	}
	if !m.lock.try(keeperByte) {
		return false, nil // a keeper that does not listen yet
	}
	if m.lock.slotsHeld() {
		// Members without keeper: one of them is about to become it, and none
		// but they have the descriptors.
		m.lock.unlock(keeperByte)
		return false, nil
	}
	if !m.takeSlot() {
		m.lock.unlock(keeperByte)
		return false, nil
	}
	m.wills.path = m.paths.willFile(m.slot)
	left := takeWills(m.wills.path)
	m.clearMeetings()
	if err := m.becomeKeeper(); err != nil {
		return false, err
	}
	m.keeper.sendWills(left)
	return true, nil
}

// enterAs joins a keeper. A slot is locked only while a keeper is connected,
// and the descriptors are given up before it if that fails: so a held slot
// always means descriptors, or that it will be let go.
func (m *member) enterAs(l *link) (done bool, err error) {
	if !m.takeSlot() {
		l.close()
		return false, errNoSlot
	}
	err = m.claim(l, nil)
	if err != nil {
		l.close()
		for key, g := range m.groups {
			g.close()
			delete(m.groups, key)
		}
		m.lock.unlock(m.slot)
		if errors.Is(err, errTooManyFiles) {
			return false, err
		}
		return false, nil
	}
	m.wills.path = m.paths.willFile(m.slot)
	for _, w := range takeWills(m.wills.path) { // the slot's last owner's
		if g := m.groups[w.Local]; g != nil {
			g.sendWill(w)
		}
	}
	m.mu.Lock()
	m.setRole(following, l, nil)
	m.mu.Unlock()
	m.gone.Add(1)
	go m.run(l)
	return true, nil
}

// takeSlot locks a slot that nobody owns.
func (m *member) takeSlot() bool {
	first := preferredSlot()
	for i := range Slots - 1 {
		if s := 1 + (first-1+i)%(Slots-1); m.lock.try(s) {
			m.slot = s
			return true
		}
	}
	return false
}
