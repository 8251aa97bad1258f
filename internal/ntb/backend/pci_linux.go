// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
	wire "verbena/internal/wire/ntb"
)

const pciDevices = "/sys/bus/pci/devices/"

// QEMU's ivshmem device.
const ivshmem = "0x1af4 0x1110"

// ones is the value of each word of a PCI device that has been pulled out.
//
// PCI Express Base Specification 5.0, 2.3.2: a read that is not answered.
const ones = 0xffffffff

// pulled reports whether a PCI device answers no more: its folder in sysfs has gone, or there is no
// vendor in its configuration space.
func pulled(folder string) bool {
	n, err := unix.Open(filepath.Join(folder, "config"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	f := hold(n)
	defer f.close()
	var vendor [2]byte
	read, err := unix.Pread(n, vendor[:], 0)
	return err != nil || read != len(vendor) || vendor == [2]byte{0xff, 0xff}
}

// openPCI opens one side of a link through BAR 2 of a PCI device, whose folder in sysfs is given.
//
// By itself the interrupt of a link is a write into memory, and a waiter looks again and again: the
// doorbell registers of bridges have errata. Only QEMU's ivshmem is known to have one that can be
// trusted; it is used where the driver vfio-pci has the device.
//
// Errors: as of Map, and the system's.
func openPCI(folder string, side int) (*mapped, error) {
	var id [2]string
	for i, name := range []string{"vendor", "device"} {
		b, err := fdtrack.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		id[i] = strings.TrimSpace(string(b))
	}
	driver, _ := os.Readlink(filepath.Join(folder, "driver"))
	if filepath.Base(driver) != "vfio-pci" {
		l, err := openFile(filepath.Join(folder, "resource2"), side)
		if err == nil {
			l.folder = folder
		}
		return l, err
	}
	v, err := openVFIO(filepath.Base(folder))
	if err != nil {
		return nil, err
	}
	l := &mapped{f: none, vfio: v, folder: folder}
	if err := l.openVFIO(side, id[0]+" "+id[1] == ivshmem); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *mapped) openVFIO(side int, hasDoorbell bool) error {
	bar, err := l.vfio.region(vfioBAR2)
	if err != nil {
		return err
	}
	if err := l.split(l.vfio.device, bar.offset, bar.size, side); err != nil {
		return err
	}
	if !hasDoorbell {
		return nil
	}
	if l.door, err = newDoorbell(l.vfio); l.door != nil {
		l.peer.Store4(wire.OffWake, l.door.id+1)
	}
	return err
}

// doorbell wakes two guests that share an ivshmem device. Its server gives a guest its number; the
// guests tell each other in their info pages.
//
// QEMU: docs/specs/ivshmem-spec.txt.
type doorbell struct {
	v         *vfio
	registers int64 // where BAR 0 is
	id        uint32
	event     fd
}

// Registers of ivshmem.
const (
	ivPositionAt = 8
	doorbellAt   = 12
)

// newDoorbell returns nil if the device has no interrupts: ivshmem-plain.
func newDoorbell(v *vfio) (*doorbell, error) {
	if n, err := v.interrupts(); n == 0 || err != nil {
		return nil, err
	}
	r, err := v.region(vfioBAR0)
	if err != nil {
		return nil, err
	}
	d := &doorbell{v: v, registers: int64(r.offset)}
	var b [4]byte
	if _, err := unix.Pread(int(v.device), b[:], d.registers+ivPositionAt); err != nil {
		return nil, os.NewSyscallError("pread", err)
	}
	if d.id = binary.LittleEndian.Uint32(b[:]); d.id > 0xffff {
		return nil, fmt.Errorf("%w: the ivshmem device says that it is number %#x", ErrConfig, d.id)
	}
	if d.event, err = v.interrupt(); err != nil {
		return nil, err
	}
	return d, nil
}

// ring interrupts a guest.
func (d *doorbell) ring(id uint32) {
	b := binary.LittleEndian.AppendUint32(nil, id<<16)
	_, _ = unix.Pwrite(int(d.v.device), b, d.registers+doorbellAt) // one that has gone is not woken
}

func (d *doorbell) wait(until time.Duration) error {
	rung, err := poll([]unix.PollFd{{Fd: int32(d.event), Events: unix.POLLIN}}, until)
	if rung {
		var b [8]byte
		unix.Read(int(d.event), b[:])
	}
	return err
}
