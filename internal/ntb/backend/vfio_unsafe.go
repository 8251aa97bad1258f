// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package backend

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of linux/vfio.h: _IO(';', 100 + n).
const (
	vfioSetIOMMU          = 0x3b66
	vfioGroupGetStatus    = 0x3b67
	vfioGroupSetContainer = 0x3b68
	vfioGroupGetDeviceFD  = 0x3b6a
	vfioGetRegionInfo     = 0x3b6c
	vfioGetIRQInfo        = 0x3b6d
	vfioSetIRQs           = 0x3b6e
)

// vfioGroupStatus is struct vfio_group_status.
type vfioGroupStatus struct{ argsz, flags uint32 }

// vfioRegionInfo is struct vfio_region_info.
type vfioRegionInfo struct {
	argsz, flags, index, capOffset uint32
	size, offset                   uint64
}

// vfioIRQInfo is struct vfio_irq_info.
type vfioIRQInfo struct{ argsz, flags, index, count uint32 }

// vfioIRQSet is struct vfio_irq_set with one eventfd.
type vfioIRQSet struct {
	argsz, flags, index, start, count uint32
	event                             int32
}

func ioctl(f fd, request, arg uintptr) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(f), request, arg)
	if errno != 0 {
		return 0, os.NewSyscallError("ioctl", errno)
	}
	return int(n), nil
}

func (s *vfioGroupStatus) get(group fd) error {
	s.argsz = uint32(unsafe.Sizeof(*s))
	_, err := ioctl(group, vfioGroupGetStatus, uintptr(unsafe.Pointer(s)))
	return err
}

func (i *vfioRegionInfo) get(device fd) error {
	i.argsz = uint32(unsafe.Sizeof(*i))
	_, err := ioctl(device, vfioGetRegionInfo, uintptr(unsafe.Pointer(i)))
	return err
}

func (i *vfioIRQInfo) get(device fd) error {
	i.argsz = uint32(unsafe.Sizeof(*i))
	_, err := ioctl(device, vfioGetIRQInfo, uintptr(unsafe.Pointer(i)))
	return err
}

func (s *vfioIRQSet) set(device fd) error {
	s.argsz = uint32(unsafe.Sizeof(*s))
	_, err := ioctl(device, vfioSetIRQs, uintptr(unsafe.Pointer(s)))
	return err
}

func vfioSetContainer(group, container fd) error {
	f := int32(container)
	_, err := ioctl(group, vfioGroupSetContainer, uintptr(unsafe.Pointer(&f)))
	return err
}

func vfioDevice(group fd, address string) (fd, error) {
	name, err := unix.BytePtrFromString(address)
	if err != nil {
		return none, err
	}
	f, err := ioctl(group, vfioGroupGetDeviceFD, uintptr(unsafe.Pointer(name)))
	runtime.KeepAlive(name)
	if err != nil {
		return none, err
	}
	return hold(f), nil
}
