// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package ivshmem

import (
	"fmt"
	"os"
	"testing"

	"verbena/interop/guest"
)

const (
	verbsBytes = 64 << 20
	addresses  = "10.99.0.1+10.99.0.2" // of side 0 and side 1
	server     = "10.99.0.2"
)

// onSide is the environment of a side's devices, over the doorbell or without.
func onSide(side int, prepare, endpoint string) string {
	return fmt.Sprintf("%smkdir -p -m 700 /run/user; export XDG_RUNTIME_DIR=/run/user VERBENA_NTB=%s=%s; ", prepare, addresses, fmt.Sprintf(endpoint, side))
}

// TestVerbsBetweenGuests has two guests do rping, and checksummed WRITEs and READs
// while one of them is reset, and then replaced.
func TestVerbsBetweenGuests(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lan := guest.NewLAN(t, 1500)
	lan.ShareWithDoorbell(verbsBytes)
	guests := lan.Boot(guest.Debian, guest.Debian)
	left, right := onSide(0, bound, "pci:%d:$device"), onSide(1, bound, "pci:%d:$device")
	rping(t, guests, left, right)

	serve := func(g *guest.Guest) {
		guest.Start(t, g, limit, right+serveVar+"="+server+":7471 exec "+self).Expect("listening")
	}
	serve(guests[1])
	work := guest.Start(t, guests[0], limit, left+workVar+"="+server+":7471 exec "+self)
	work.Expect(`\b200 rounds`)
	guests[1].Reset()
	work.Expect("lost the peer")
	serve(guests[1])
	work.Expect(`\b500 rounds`)
	guests[1].Kill()
	work.Expect(`(?s)lost the peer.*lost the peer`)
	serve(lan.Boot(guest.Debian)[0])
	t.Log(work.Succeed())
}

// rping pings 1000 times with verified data.
func rping(t *testing.T, guests []*guest.Guest, left, right string) {
	t.Helper()
	s := guest.Start(t, guests[1], limit, right+"exec "+command+" rping -s -d -a "+server)
	s.Expect("rdma_listen on")
	guest.Run(t, guests[0], limit, left+"exec "+command+" rping -c -V -C 1000 -a "+server)
	s.Succeed()
}

// TestVerbsOverABAR is rping where nobody is woken: the BAR as a file. Then the
// guests have an Ethernet over it.
func TestVerbsOverABAR(t *testing.T) {
	lan := guest.NewLAN(t, 1500)
	lan.Share(verbsBytes)
	guests := lan.Boot(guest.Debian, guest.Debian)
	left, right := onSide(0, resource, "map:%d:$bar"), onSide(1, resource, "map:%d:$bar")
	rping(t, guests, left, right)
	overEthernet(t, guests, left, right)
}

// overEthernet has ping and TCP go over the link.
func overEthernet(t *testing.T, guests []*guest.Guest, left, right string) {
	t.Helper()
	var carriers []*guest.Command
	for i, side := range []string{left, right} {
		carriers = append(carriers, guest.Start(t, guests[i], limit, fmt.Sprintf("%secho number $$; exec %s ether --address 10.99.3.%d/24", side, command, i+1)))
	}
	var numbers []string
	for _, c := range carriers {
		numbers = append(numbers, c.Expect(`number (\d+)`)[1])
		c.Expect("the link is up")
	}
	t.Log(guest.Run(t, guests[0], limit, "busybox ping -c 5 -s 4000 10.99.3.2"))
	sink := guest.Start(t, guests[1], limit, "iperf3 --server --one-off --forceflush")
	sink.Expect("listening")
	t.Log(guest.Run(t, guests[0], limit, "iperf3 --client=10.99.3.2 --time=2"))
	sink.Succeed()
	for i, c := range carriers {
		guest.Run(t, guests[i], limit, "kill "+numbers[i])
		t.Log(c.Succeed())
	}
}
