// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package ivshmem

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"verbena/interop/guest"
)

// programsVar names the folder of the programs that run in guests.
const programsVar = "VERBENA_IVSHMEM_PROGRAMS"

// Set by TestMain: program is the test binary of package bridge, which is a peer in
// itself; command is verbena.
var programs, program, command string

// tests are those of memory on a node, and of a device there, as programs.
var tests = []struct{ name, pkg, run string }{
	{"numa.test", "verbena/internal/sys/numa", "TestPlace|TestRun"},
	{"verbs.test", "verbena/verbs", "TestNTBOnANode"},
}

func TestMain(m *testing.M) {
	workFirst()
	if !guest.Inside() {
		dir, err := os.MkdirTemp("", "verbena-ivshmem-")
		if err != nil {
			fmt.Fprintln(os.Stderr, "ivshmem:", err)
			os.Exit(1)
		}
		os.Setenv(programsVar, dir)
	}
	programs = os.Getenv(programsVar)
	program, command = filepath.Join(programs, "bridge.test"), filepath.Join(programs, "verbena")
	if !guest.Inside() {
		build("test", "-c", "-o", program, "verbena/internal/ntb/backend")
		build("build", "-o", command, "verbena/cmd/verbena")
		for _, x := range tests {
			build("test", "-c", "-o", filepath.Join(programs, x.name), x.pkg)
		}
	}
	status := guest.Main(m, guest.Debian)
	if !guest.Inside() {
		os.RemoveAll(programs)
	}
	os.Exit(status)
}

func build(args ...string) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "ivshmem: %v\n%s", err, out)
		os.Exit(1)
	}
}

const (
	sharedBytes = 4 << 20
	limit       = 5 * time.Minute
)

// resource finds the BAR of the shared memory: vendor and device are QEMU's.
const resource = `for d in /sys/bus/pci/devices/*; do [ "$(cat $d/vendor)$(cat $d/device)" = 0x1af40x1110 ] && bar=$d/resource2; done; `

// bound finds the device and gives it to user space. Interrupts are not
// remapped by this IOMMU.
const bound = `for d in /sys/bus/pci/devices/*; do [ "$(cat $d/vendor)$(cat $d/device)" = 0x1af40x1110 ] && device=${d##*/}; done
echo 1 >/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts
echo vfio-pci >/sys/bus/pci/devices/$device/driver_override
echo $device >/sys/bus/pci/drivers_probe
`

// One of two guests is killed in the middle of a transfer and replaced by another: every byte is
// read back and compared, atomics count, and the survivor goes on with the new one.
func TestGuestsShareABAR(t *testing.T) {
	lan := guest.NewLAN(t, 1500)
	lan.Share(sharedBytes)
	guests := lan.Boot(guest.Debian, guest.Debian)
	serve := func(g *guest.Guest) *guest.Command {
		return guest.Start(t, g, limit, resource+"VERBENA_BRIDGE_SERVER=map:1:$bar exec "+program)
	}
	serve(guests[1])
	client := guest.Start(t, guests[0], limit, resource+"VERBENA_BRIDGE_PEER=map:0:$bar exec "+program+" -test.v -test.run TestPeer")
	client.Expect(`\b300 rounds`)
	guests[1].Kill()
	client.Expect(`lost the peer`)
	serve(lan.Boot(guest.Debian)[0])
	client.Expect(`\b600 rounds`)
	t.Log(client.Succeed())
}

// Two guests that sleep, and wake each other by the doorbell of the device.
func TestGuestsWakeEachOther(t *testing.T) {
	lan := guest.NewLAN(t, 1500)
	lan.ShareWithDoorbell(sharedBytes)
	guests := lan.Boot(guest.Debian, guest.Debian)
	serve := func(g *guest.Guest) {
		guest.Start(t, g, limit, bound+"VERBENA_BRIDGE_SERVER=pci:1:$device exec "+program)
	}
	serve(guests[1])
	sleepers := guest.Start(t, guests[0], limit, bound+"VERBENA_BRIDGE_SLEEPERS=pci:0:$device exec "+program+" -test.v -test.run TestSleepers")
	rung := sleepers.Expect(`(?m)^ *\d+: +(\d+) +(\d+) .*vfio-msix`)
	sleepers.Succeed()
	var n int
	for _, s := range rung[1:] { // of each CPU
		i, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		n += i
	}
	t.Log(sleepers.Output())
	if n < 100 {
		t.Errorf("100 answers came with %d interrupts", n)
	}
	client := guest.Start(t, guests[0], limit, bound+"VERBENA_BRIDGE_PEER=pci:0:$device exec "+program+" -test.v -test.run TestPeer")
	client.Expect(`\b300 rounds`)
	guests[1].Kill()
	client.Expect(`lost the peer`)
	serve(lan.Boot(guest.Debian)[0]) // which has another number
	client.Expect(`\b600 rounds`)
	t.Log(client.Succeed())
}
