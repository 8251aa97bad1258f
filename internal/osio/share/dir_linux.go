package share

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"verbena/internal/osio/secenv"
)

// DefaultDir is where this user's processes meet: $XDG_RUNTIME_DIR/verbena, or
// /run/user/UID/verbena, or /tmp/verbena-UID where neither is ours.
func DefaultDir() string {
	uid := strconv.Itoa(os.Geteuid())
	for _, base := range []string{secenv.Get("XDG_RUNTIME_DIR"), "/run/user/" + uid} {
		if base != "" && checkOwner(base) == nil {
			return filepath.Join(base, "verbena")
		}
	}
	return "/tmp/verbena-" + uid
}

// checkOwner verifies that path is a directory of ours, not a link to one.
func checkOwner(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("share: %s is not a directory owned by user %d: remove it or set XDG_RUNTIME_DIR", path, os.Geteuid())
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("share: %s may be written by others: chmod 700 it", path)
	}
	return nil
}

// paths are the files of one network namespace.
type paths struct{ lock, socket, wills string }

// openDir makes and checks the directory and names the files in it. Processes
// in different network namespaces may see one directory but share no port, so
// the namespace is part of each name.
func openDir(dir string) (paths, error) {
	if dir == "" {
		dir = DefaultDir()
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return paths{}, fmt.Errorf("share: directory to meet in: %w", err)
	}
	if err := checkOwner(dir); err != nil {
		return paths{}, err
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
