// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/udp"
)

// joinPatience bounds a joiner's wait for a keeper to be found or to answer. One starts within
// milliseconds; a process that takes longer is stopped.
const joinPatience = 10 * time.Second

// slotPatience bounds how long a joiner looks for a slot when none is free: the
// keeper holds a dead member's for a moment, to send its wills.
const slotPatience = 200 * time.Millisecond

// maxStarts is the number of keepers that a member starts without an answer. Then it becomes the
// keeper itself.
const maxStarts = 3

// join finds a keeper, or has one started, and gets a slot of it.
func join(dir string, o Options) (Member, error) {
	ps, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	watch, err := newWatch()
	if err != nil {
		return nil, fmt.Errorf("portshare: %w", err)
	}
	m := &member{
		watch: watch, opt: o, paths: ps, vault: -1,
		sockets: map[netip.Addr]*udp.Socket{}, parts: memberParts{},
		keys: map[string]bool{}, calls: map[uint64]call{},
	}
	m.change.L = &m.mu
	begun := time.Now()
	for p := (pause{}); ; p.wait() {
		l, err := m.reach()
		final := err != nil
		if l != nil {
			if err = m.enter(l); err == nil {
				return m, nil
			}
			final = errors.Is(err, unix.EMFILE) ||
				err == errNoSlot && time.Since(begun) > slotPatience
		}
		if !final && time.Since(begun) > joinPatience {
			final, err = true, fmt.Errorf("portshare: the keeper in %s does not answer: is its "+
				"process stopped?", ps.dir)
		}
		if final {
			m.dropVault()
			watch.close()
			if m.host != nil {
				m.host.close(false)
			}
			return nil, err
		}
	}
}

// errGone says that a keeper has gone while it let us in.
var errGone = errors.New("portshare: the keeper has gone")

// reach connects to the keeper. Where there is none it has one started, for the next call;
// the error says why there can be none.
func (m *member) reach() (*link, error) {
	l, err := dial(m.watch, m.paths.socket)
	if err == nil {
		return l, nil
	}
	if call := (*os.SyscallError)(nil); errors.As(err, &call) && call.Syscall == "socket" {
		return nil, fmt.Errorf("portshare: connection to the keeper: %w", err)
	}
	lock, err := openLock(m.paths.lock)
	if err != nil {
		return nil, err
	}
	defer lock.close()
	if lock.held(keeperByte, 1) { // it begins, or ends
		return nil, nil
	}
	if m.starts < maxStarts {
		if !lock.claimStart() { // somebody else has started one
			return nil, nil
		}
		m.starts++
		if StartKeeper(m.paths.dir) == nil {
			return nil, nil
		}
	}
	return nil, m.keepHere()
}

// keepHere makes this process the keeper, as there is no command that can be. It does as
// well, but for two things: the others wait while it is stopped, and nobody speaks for it
// where it is the last and is killed.
func (m *member) keepHere() error {
	k, err := newKeeper(m.paths, m.opt.MADRules, m.opt.Attach)
	if err == errKept {
		return nil
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	over := m.role == left
	if !over {
		m.host = k
	}
	m.mu.Unlock()
	if over {
		k.close(false)
	}
	return nil
}

// enter becomes a member at a keeper. The slot is locked while that is connected, and it
// gives it to nobody else meanwhile.
func (m *member) enter(l *link) (err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := l.send(frame{Kind: kindJoin}); err != nil {
		return err
	}
	if m.slot, err = m.welcome(l); err != nil {
		return err
	}
	lock, err := openLock(m.paths.lock)
	if err != nil {
		return err
	}
	if m.slot < 0 || m.slot >= Slots || !lock.at(m.paths.lock) || !lock.try(byteOf(m.slot)) {
		lock.close()
		return errGone
	}
	m.lock = lock
	m.wills.path = m.paths.willFile(m.slot)
	m.mu.Lock()
	m.setRole(following, l)
	m.mu.Unlock()
	m.gone.Add(1)
	go m.run(l)
	return nil
}
