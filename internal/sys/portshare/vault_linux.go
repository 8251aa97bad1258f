// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/udp"
)

// vault holds the descriptors of all groups in messages that are never read, only peeked at. As
// long as any process has its end, no socket leaves its group. So a keeper that is killed leaves
// the groups as they are. A member has one descriptor for all of them, and the next keeper finds in
// it the sockets of the last one.
//
// A socket's buffer takes some hundred messages. So the vault holds the ends of boxes, and
// each box up to boxSockets sockets.
type vault struct {
	in  int // the keeper's end, which it writes to
	end int // members have it, too

	box  int // the keeper's end of the last box; -1 before the first
	held int // sockets in that
}

// vaultEntry describes the socket whose descriptor is beside this message in a box. The messages of
// a group have the order of its indices.
type vaultEntry struct {
	Addr  netip.Addr `json:"addr"`
	Index int        `json:"index"`
	Slot  int        `json:"slot"`           // whose socket it is; at keeperIndex the keeper's
	Part  *int       `json:"part,omitempty"` // of the slot; nil: all that have no socket
}

// boxSockets bounds a box. The smallest buffer of any system has room for them.
const boxSockets = 128

func newVault() (*vault, error) {
	in, end, err := newBox()
	if err != nil {
		return nil, err
	}
	fdtrack.Add(in)
	fdtrack.Add(end)
	return &vault{in: in, end: end, box: -1}, nil
}

func newBox() (in, end int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX,
		unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, -1, os.NewSyscallError("socketpair", err)
	}
	unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<20) // if granted
	return fds[0], fds[1], nil
}

func (v *vault) close() {
	v.closeBox()
	fdtrack.Close(v.in)
	fdtrack.Close(v.end)
}

func (v *vault) closeBox() {
	if v.box >= 0 {
		fdtrack.Close(v.box)
		v.box, v.held = -1, 0
	}
}

// put adds the next socket of a group.
func (v *vault) put(c vaultEntry, s *udp.Socket) error {
	if v.box < 0 || v.held == boxSockets {
		if err := v.nextBox(); err != nil {
			return fmt.Errorf("portshare: keep a socket: %w", err)
		}
	}
	b, err := json.Marshal(c)
	if err == nil {
		err = drop(v.box, b, s.FD())
	}
	if err != nil {
		return fmt.Errorf("portshare: keep a socket: %w", err)
	}
	v.held++
	return nil
}

// nextBox puts another box into the vault.
func (v *vault) nextBox() error {
	in, end, err := newBox()
	if err != nil {
		return err
	}
	err = drop(v.in, []byte("box"), end)
	unix.Close(end)
	if err != nil {
		unix.Close(in)
		return err
	}
	v.closeBox()
	v.box = in
	fdtrack.Add(in)
	return nil
}

// drop sends a message that stays, with a descriptor.
func drop(to int, b []byte, fd int) error {
	err := unix.Sendmsg(to, b, unix.UnixRights(fd), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if err == unix.ETOOMANYREFS { // of this user's in all vaults: unix(7)
		err = unix.EMFILE
	}
	return err
}

// adopt puts the boxes of another keeper's vault into this one as they are: sockets that were
// in flight twice would count twice. A member gave its end of that vault. Each socket goes to
// take, which owns the descriptor then. Boxes that known has, by inode, are left out.
func (v *vault) adopt(end int, known map[uint64]bool, take func(c vaultEntry, fd int)) error {
	return peek(end, func(_ []byte, box int) error {
		defer unix.Close(box)
		var is unix.Stat_t
		if err := unix.Fstat(box, &is); err != nil || known[is.Ino] {
			return err
		}
		err := peek(box, func(b []byte, fd int) error {
			var c vaultEntry
			if err := json.Unmarshal(b, &c); err != nil {
				unix.Close(fd)
				return err
			}
			take(c, fd)
			return nil
		})
		if err == nil {
			err = drop(v.in, []byte("box"), box)
		}
		known[is.Ino] = err == nil
		return err
	})
}

// peek gives the messages in a socket, each with its descriptor, to take, which owns that.
func peek(end int, take func(b []byte, fd int) error) error {
	if err := unix.SetsockoptInt(end, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0); err != nil {
		return os.NewSyscallError("setsockopt SO_PEEK_OFF", err)
	}
	b, oob := make([]byte, 256), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(end, b, oob,
			unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN || err == nil && n == 0 { // at the end, with its keeper or without
			return nil
		}
		if err != nil {
			return os.NewSyscallError("recvmsg", err)
		}
		fds := descriptors(oob[:oobn])
		if flags&unix.MSG_CTRUNC != 0 || len(fds) != 1 {
			closeAll(fds)
			return errTooManyFiles
		}
		if err := take(b[:n], fds[0]); err != nil {
			return err
		}
	}
}
