// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package xsk

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// channels is struct ethtool_channels.
type channels struct {
	command                             uint32
	maxRx, maxTx, maxOther, maxCombined uint32
	rx, tx, other, combined             uint32
}

// transmitQueues asks, by any socket, how many queues an interface sends by; 0 if it does not say.
func transmitQueues(fd int, name string) int {
	c := channels{command: unix.ETHTOOL_GCHANNELS}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&c)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(&c)
	if errno != 0 {
		return 0
	}
	return int(c.tx + c.combined)
}
