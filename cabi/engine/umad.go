// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
// #include <rdma/ib_user_mad.h>
// #include <rdma/rdma_user_ioctl.h>
import "C"

import (
	"errors"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"verbena/internal/core"
	"verbena/internal/device"
	"verbena/internal/monotime"
	"verbena/internal/stats"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/umad"
)

// umads are the open umad files, by the application's end of the socket: descriptors may be
// duplicated, and their numbers come back.
var umads struct {
	mu    sync.Mutex
	files map[inode]*umadFile // guarded by mu
}

// inode identifies an open file.
type inode struct{ dev, number uint64 }

type umadFile struct {
	// immutable
	inode inode
	peer  int
	port  *core.Context

	mu   sync.Mutex
	file *umad.File // guarded by mu
}

// inodeOf returns the inode of a descriptor, the zero value if it is none.
func inodeOf(fd int) inode {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return inode{}
	}
	return inode{uint64(st.Dev), st.Ino} // Dev has 32 bits on some architectures
}

func umadOpen(device *C.char, fd, peer C.int) error {
	f := &umadFile{inode: inodeOf(int(fd)), peer: int(peer)}
	if err := f.open(C.GoString(device)); err != nil {
		unix.Close(f.peer)
		return err
	}
	f.file = umad.NewFile(func() umad.Counters { return portCounters(f.port) })
	fdtrack.Add(f.peer)
	umads.mu.Lock()
	if umads.files == nil {
		umads.files = map[inode]*umadFile{}
	}
	umads.files[f.inode] = f
	umads.mu.Unlock()
	go f.serve()
	return nil
}

func (f *umadFile) open(name string) error {
	if err := unix.SetNonblock(f.peer, true); err != nil {
		return err
	}
	port, err := openDevice(name)
	if err != nil {
		return err
	}
	if port.Info().Kind != device.KindRoCE {
		return errors.Join(closeDevice(port), syscall.ENODEV)
	}
	f.port = port
	return nil
}

// serve answers the application until it has closed its end.
func (f *umadFile) serve() {
	defer f.close()
	b := make([]byte, umad.MessageBytes+1) // a longer message is known by its length
	for {
		f.mu.Lock()
		until, waits := f.file.NextExpiry()
		f.mu.Unlock()
		ms := -1
		if waits {
			ms = int(max(0, until.Sub(monotime.Now()).Milliseconds()+1))
		}
		fds := []unix.PollFd{{Fd: int32(f.peer), Events: unix.POLLIN | unix.POLLRDHUP}}
		if _, err := unix.Poll(fds, ms); err != nil && err != unix.EINTR || fdtrack.Check() {
			return
		}
		// An empty message reads as the end of a file does: only poll shows that the other end is
		// closed.
		if fds[0].Revents&(unix.POLLHUP|unix.POLLRDHUP|unix.POLLNVAL) != 0 {
			return
		}
		n, err := unix.Read(f.peer, b)
		if err != nil && err != unix.EAGAIN && err != unix.EINTR {
			return
		}
		f.mu.Lock()
		var answer []byte
		if n > 0 {
			answer = f.file.Handle(monotime.Now(), b[:n])
		} else {
			answer = f.file.Expire(monotime.Now())
		}
		f.mu.Unlock()
		if answer != nil {
			// It is lost if the application does not read or has just closed its end.
			_ = unix.Send(f.peer, answer, unix.MSG_NOSIGNAL)
		}
	}
}

func (f *umadFile) close() {
	umads.mu.Lock()
	if umads.files[f.inode] == f {
		delete(umads.files, f.inode)
	}
	umads.mu.Unlock()
	_ = fdtrack.Close(f.peer)
	_ = closeDevice(f.port)
}

func umadIoctl(fd C.int, request C.uint64_t, arg unsafe.Pointer) error {
	umads.mu.Lock()
	f := umads.files[inodeOf(int(fd))]
	umads.mu.Unlock()
	if f == nil {
		return syscall.ENOTTY
	}
	if arg == nil && request != C.IB_USER_MAD_ENABLE_PKEY {
		return syscall.EFAULT
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	register := func(qpn uint32, id *C.__u32) error {
		agent, errno := f.file.Register(qpn)
		if errno != 0 {
			return errno
		}
		*id = C.__u32(agent)
		return nil
	}
	switch request {
	case C.IB_USER_MAD_ENABLE_PKEY: // the length of a message says which header it has
		return nil
	case C.IB_USER_MAD_REGISTER_AGENT:
		r := (*C.struct_ib_user_mad_reg_req)(arg)
		return register(uint32(r.qpn), &r.id)
	case C.IB_USER_MAD_REGISTER_AGENT2:
		r := (*C.struct_ib_user_mad_reg_req2)(arg)
		if r.flags&^C.IB_USER_MAD_REG_FLAGS_CAP != 0 {
			r.flags = C.IB_USER_MAD_REG_FLAGS_CAP
			return syscall.EINVAL
		}
		return register(uint32(r.qpn), &r.id)
	case C.IB_USER_MAD_UNREGISTER_AGENT:
		if errno := f.file.Unregister(uint32(*(*C.__u32)(arg))); errno != 0 {
			return errno
		}
		return nil
	}
	return syscall.ENOTTY
}

// portCounters returns the counts of a port: the sums over the processes of its user that have it
// open.
func portCounters(port *core.Context) umad.Counters {
	counts := port.PortCounts()
	return umad.Counters{
		XmitBytes: counts["sent_bytes"], RcvBytes: counts["rcvd_bytes"],
		XmitPackets: counts["sent_pkts"], RcvPackets: counts["rcvd_pkts"],
		RcvErrors: stats.RcvErrors(counts),
	}
}
