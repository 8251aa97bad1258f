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
type paths struct{ lock, socket, wills string }

// openDir makes and checks the directory and names the files in it. Processes
// in different network namespaces may see one directory but share no port, so
// the namespace is part of each name.
func openDir(dir string) (paths, error) {
	var passed error
	if dir == "" {
		dir, passed = rundir.Dir()
	}
	if err := rundir.Make(dir); err != nil {
		return paths{}, fmt.Errorf("share: no directory to meet in, set XDG_RUNTIME_DIR to one in which user %d may write: %w", os.Geteuid(), errors.Join(err, passed))
	}
	// The calling thread's, as is that of the sockets it opens. /proc/self would
	// be the main thread's, which may have moved alone.
	var ns unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &ns); err != nil {
		return paths{}, fmt.Errorf("share: network namespace: %w", err)
	}
	at := func(kind string) string { return filepath.Join(dir, fmt.Sprintf("%s-%d", kind, ns.Ino)) }
	p := paths{lock: at("slots"), socket: at("keeper"), wills: at("wills")}
	if max := len(unix.RawSockaddrUnix{}.Path) - 1; len(p.socket) > max {
		return paths{}, fmt.Errorf("share: %s is longer than a socket's path may be (%d bytes): use a shorter directory", p.socket, max)
	}
	return p, nil
}

// willFile names the file of a slot's wills.
func (p paths) willFile(slot int) string { return fmt.Sprintf("%s-%d", p.wills, slot) }
