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

// vault holds the descriptors of all groups in messages that are never read, only peeked
// at: as long as any process has its end, no socket leaves its group. So a keeper that is
// killed leaves the groups as they are, a member has one descriptor for all of them, and
// the next keeper finds in it what the last one had.
type vault struct {
	in  int // the keeper's end, which it writes to
	end int // what members have, too
}

// chest is what a message in a vault says of the descriptors beside it: sockets of one
// group, in the order of their indices.
type chest struct {
	Addr  netip.Addr `json:"addr"`
	First int        `json:"first"`
}

// maxChest bounds the descriptors of a message. The kernel takes 253.
const maxChest = 128

func newVault() (*vault, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<20) // what the system grants
	fdtrack.Add(fds[0])
	fdtrack.Add(fds[1])
	return &vault{fds[0], fds[1]}, nil
}

func (v *vault) close() {
	fdtrack.Close(v.in)
	fdtrack.Close(v.end)
}

// put adds sockets of a group, the first of which has an index.
func (v *vault) put(addr netip.Addr, first int, sockets []*udp.Socket) error {
	for len(sockets) > 0 {
		n := min(len(sockets), maxChest)
		fds := make([]int, n)
		for i, s := range sockets[:n] {
			fds[i] = s.FD()
		}
		b, err := json.Marshal(chest{addr, first})
		if err == nil {
			err = unix.Sendmsg(v.in, b, unix.UnixRights(fds...), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		}
		if err == unix.ETOOMANYREFS { // of this user's in all vaults: unix(7)
			err = fmt.Errorf("raise the limit of open files (ulimit -n): %w", unix.EMFILE)
		}
		if err != nil {
			return fmt.Errorf("share: keep %d sockets: %w", n, err)
		}
		first, sockets = first+n, sockets[n:]
	}
	return nil
}

// peekVault gives the sockets in another keeper's vault, of which a member has the end, to
// take, which owns them then.
func peekVault(end int, take func(addr netip.Addr, first int, fds []int)) error {
	if err := unix.SetsockoptInt(end, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0); err != nil {
		return os.NewSyscallError("setsockopt SO_PEEK_OFF", err)
	}
	b, oob := make([]byte, 256), make([]byte, unix.CmsgSpace(4*maxChest))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(end, b, oob, unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
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
		var c chest
		if flags&unix.MSG_CTRUNC != 0 {
			err = errTooManyFiles
		} else {
			err = json.Unmarshal(b[:n], &c)
		}
		if err != nil {
			closeAll(fds)
			return err
		}
		take(c.Addr, c.First, fds)
	}
}
