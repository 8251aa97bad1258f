// SPDX-License-Identifier: BSD-2-Clause

package rdmanl

import (
	"context"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/device"
	"verbena/internal/stats"
)

// maxRequest bounds a datagram of requests. A longer one is cut, and so malformed.
const maxRequest = 64 << 10

// patience bounds the wait for processes that are stopped.
const patience = time.Second

// Serve answers the requests that come from a socket, until its other end is closed. Root is the
// directory of the files of `verbena run`, which has the names of the devices. The first message,
// of one byte, says that it serves.
func Serve(socket int, root string) error {
	dir, namespace, err := stats.ParseRoot(root)
	if err != nil {
		return err
	}
	if err := send(socket, []byte{0}); err != nil {
		return err
	}
	b := make([]byte, maxRequest)
	for {
		n, err := unix.Read(socket, b)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return os.NewSyscallError("read", err)
		case n == 0:
			// An empty message reads as the end does: only poll shows that the other end is closed.
			fds := []unix.PollFd{{Fd: int32(socket), Events: unix.POLLRDHUP}}
			if n, err := unix.Poll(fds, 0); n > 0 || err != nil && err != unix.EINTR {
				return nil
			}
			continue
		}
		for _, m := range Answer(b[:n], systemOf(dir, namespace, root)) {
			if err := send(socket, m); err != nil {
				return err
			}
		}
	}
}

// send sends a message. The program waits for it or has closed the socket.
func send(socket int, m []byte) error {
	for {
		err := unix.Send(socket, m, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return os.NewSyscallError("send", err)
		}
	}
}

// systemOf returns the devices of a root and the processes of a namespace. They are found once.
func systemOf(dir, namespace, root string) *System {
	var devices []Device
	var processes []stats.Snapshot
	var asked bool
	s := &System{}
	s.Devices = func() []Device {
		if devices == nil {
			devices = devicesOf(root)
		}
		return devices
	}
	s.Processes = func() []stats.Snapshot {
		if !asked {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			asked = true
			processes, _ = stats.CollectIn(ctx, dir, namespace)
		}
		return processes
	}
	s.Counters = func(device string) []stats.Counter {
		return stats.HWCounters(root, device)
	}
	return s
}

func devicesOf(root string) (list []Device) {
	all, _ := device.All()
	names, _ := stats.Devices(root)
	for _, name := range names {
		d := Device{Name: name}
		if i := slices.IndexFunc(all, func(i device.Info) bool { return i.Name == name }); i >= 0 {
			d.Info = &all[i]
		}
		list = append(list, d)
	}
	return list
}
