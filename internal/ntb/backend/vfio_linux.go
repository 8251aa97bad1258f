// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// vfio is a PCI device that the driver vfio-pci has given to user space. While it
// is open no other process can open it.
//
// Linux: Documentation/driver-api/vfio.rst.
type vfio struct {
	container, group, device fd
	config                   int64 // where in device the configuration space is
}

// Indices of linux/vfio.h.
const (
	vfioType1v2     = 3
	vfioBAR0        = 0
	vfioBAR2        = 2
	vfioConfigSpace = 7
	vfioMSIX        = 2
)

// openVFIO opens the device at a PCI address, which vfio-pci must have.
func openVFIO(address string) (*vfio, error) {
	v := &vfio{container: none, group: none, device: none}
	if err := v.open(address); err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

func openHeld(path string) (fd, error) {
	n, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return none, fmt.Errorf("%w: %s", ErrInUse, path)
	}
	if err != nil {
		return none, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return hold(n), nil
}

func (v *vfio) open(address string) error {
	link, err := os.Readlink(pciDevices + address + "/iommu_group")
	if err != nil {
		return err
	}
	path := "/dev/vfio/" + filepath.Base(link)
	if v.container, err = openHeld("/dev/vfio/vfio"); err != nil {
		return err
	}
	if v.group, err = openHeld(path); err != nil {
		return err
	}
	var status vfioGroupStatus
	const viable = 1
	if err := status.get(v.group); err != nil {
		return err
	}
	if status.flags&viable == 0 {
		return fmt.Errorf("%w: %s: other devices of its IOMMU group have drivers of the kernel's",
			ErrConfig, path)
	}
	if err := vfioSetContainer(v.group, v.container); err != nil {
		return err
	}
	if _, err := ioctl(v.container, vfioSetIOMMU, vfioType1v2); err != nil {
		return fmt.Errorf("%s: %w (without interrupt remapping it wants allow_unsafe_interrupts "+
			"of vfio_iommu_type1)", path, err)
	}
	if v.device, err = vfioDevice(v.group, address); err != nil {
		return err
	}
	c, err := v.region(vfioConfigSpace)
	if err != nil {
		return err
	}
	v.config = int64(c.offset)
	return v.enable()
}

// region returns where a BAR, or the configuration space, is in the descriptor.
func (v *vfio) region(index uint32) (vfioRegionInfo, error) {
	i := vfioRegionInfo{index: index}
	err := i.get(v.device)
	return i, err
}

// enable has the device decode its memory and send its interrupts, which are
// writes of its own.
//
// PCI Local Bus Specification 3.0, 6.2.2: the command register.
func (v *vfio) enable() error {
	const commandAt, memorySpace, busMaster = 4, 1 << 1, 1 << 2
	var b [2]byte
	if _, err := unix.Pread(int(v.device), b[:], v.config+commandAt); err != nil {
		return os.NewSyscallError("pread", err)
	}
	b[0] |= memorySpace | busMaster
	if _, err := unix.Pwrite(int(v.device), b[:], v.config+commandAt); err != nil {
		return os.NewSyscallError("pwrite", err)
	}
	return nil
}

// interrupts returns how many vectors of MSI-X the device has.
func (v *vfio) interrupts() (uint32, error) {
	i := vfioIRQInfo{index: vfioMSIX}
	err := i.get(v.device)
	return i.count, err
}

// interrupt returns an eventfd that the first vector of MSI-X signals.
func (v *vfio) interrupt() (fd, error) {
	n, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return none, os.NewSyscallError("eventfd", err)
	}
	event := hold(n)
	const dataEventFD, actionTrigger = 1 << 2, 1 << 5
	s := vfioIRQSet{flags: dataEventFD | actionTrigger, index: vfioMSIX, count: 1, event: int32(n)}
	if err := s.set(v.device); err != nil {
		event.close()
		return none, err
	}
	return event, nil
}

func (v *vfio) close() {
	v.device.close()
	v.group.close()
	v.container.close()
}
