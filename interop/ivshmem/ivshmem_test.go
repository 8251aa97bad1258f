//go:build linux && interop

package ivshmem

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"verbena/interop/guest"
)

// program is the test binary of package bridge, which is a peer in itself.
var program = filepath.Join(os.TempDir(), fmt.Sprintf("verbena-bridge-%d.test", os.Getuid()))

func TestMain(m *testing.M) {
	if !guest.Inside() {
		if out, err := exec.Command("go", "test", "-c", "-o", program, "verbena/internal/osio/bridge").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "ivshmem: %v\n%s", err, out)
			os.Exit(1)
		}
	}
	status := guest.Main(m, guest.Debian)
	if !guest.Inside() {
		os.Remove(program)
	}
	os.Exit(status)
}

const (
	sharedBytes = 4 << 20
	limit       = 5 * time.Minute
)

// resource finds the BAR of the shared memory: vendor and device are QEMU's.
const resource = `for d in /sys/bus/pci/devices/*; do [ "$(cat $d/vendor)$(cat $d/device)" = 0x1af40x1110 ] && bar=$d/resource2; done; `

// Two guests, one of which is killed in the middle of a transfer and replaced
// by another: every byte is read back and compared, atomics count, and the
// survivor goes on with the new one.
func TestGuestsShareABAR(t *testing.T) {
	lan := guest.NewLAN(t, 1500)
	lan.Share(sharedBytes)
	guests := lan.Boot(guest.Debian, guest.Debian)
	serve := func(g *guest.Guest) *guest.Command {
		return guest.Start(t, g, limit, resource+"VERBENA_BRIDGE_SERVER=map:$bar exec "+program)
	}
	serve(guests[1])
	client := guest.Start(t, guests[0], limit, resource+"VERBENA_BRIDGE_PEER=map:$bar exec "+program+" -test.v -test.run TestPeer")
	client.Expect(`\b300 rounds`)
	guests[1].Kill()
	client.Expect(`lost the peer`)
	serve(lan.Boot(guest.Debian)[0])
	client.Expect(`\b600 rounds`)
	t.Log(client.Succeed())
}
