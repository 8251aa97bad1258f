// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/rundir"
)

// paths are the files of one network namespace.
type paths struct {
	dir, lock, socket, wills, rings string

	ns uint64 // the namespace's inode
}

// openDir makes and checks the directory and names the files in it. Processes
// in different network namespaces may see one directory but share no port, so
// the namespace is part of each name. So is the number of slots: processes of a version
// with another one steer by other bits of a number.
func openDir(dir string) (paths, error) {
	var passed error
	if dir == "" {
		dir, passed = rundir.Dir()
	}
	if err := rundir.Make(dir); err != nil {
		return paths{}, fmt.Errorf("portshare: no runtime directory, set XDG_RUNTIME_DIR to one "+
			"that user %d may write to: %w", os.Geteuid(), errors.Join(err, passed))
	}
	// The calling thread's, as is that of the sockets it opens. /proc/self would
	// be the main thread's, which may have moved alone.
	var ns unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &ns); err != nil {
		return paths{}, fmt.Errorf("portshare: network namespace: %w", err)
	}
	at := func(kind string) string {
		return filepath.Join(dir, fmt.Sprintf("%s%d-%d", kind, Slots, ns.Ino))
	}
	p := paths{ns: ns.Ino, dir: dir, lock: at("slots"), socket: at("keeper"), wills: at("wills"),
		rings: at("ring")}
	if max := len(unix.RawSockaddrUnix{}.Path) - 1; len(p.socket) > max {
		return paths{}, fmt.Errorf("portshare: %s is longer than a socket's path may be (%d "+
			"bytes): use a shorter directory", p.socket, max)
	}
	return p, nil
}

// willFile names the file of a slot's wills.
func (p paths) willFile(slot int) string { return fmt.Sprintf("%s-%d", p.wills, slot) }

// meeting names the socket by which the owner of a slot is found.
func (p paths) meeting(slot int) string { return fmt.Sprintf("%s-%d", p.rings, slot) }

// name is that of the owner of a slot among the processes of all namespaces.
func (p paths) name(slot int) string { return fmt.Sprintf("%d-%d", p.ns, slot) }

// stats names the socket by which the owner of a slot tells its counters.
func (p paths) stats(slot int) string {
	return filepath.Join(p.dir, p.name(slot)+rundir.StatsSuffix)
}

// left returns the slots whose owners have left something that is still there.
func (p paths) left() (slots []int) {
	for slot := range Slots {
		for _, path := range []string{p.willFile(slot), p.meeting(slot), p.stats(slot)} {
			if _, err := os.Lstat(path); err == nil {
				slots = append(slots, slot)
				break
			}
		}
	}
	return slots
}
