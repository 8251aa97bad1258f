// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"verbena/internal/sys/udp"
)

func TestSoloHasThePortAlone(t *testing.T) {
	addr := netip.MustParseAddr("127.64.3.7")
	m, err := Join("", Options{Solo: true, Socket: udp.Options{Portable: true}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Socket(addr)
	if err != nil {
		t.Skipf("this system has no second loopback address: add 127.0.0.2 to test it: %v", err)
	}
	if again, err := m.Socket(addr); again != s || err != nil || s.LocalAddr() != netip.AddrPortFrom(addr, Port) {
		t.Errorf("second Socket: %v, %v", again, err)
	}
	if lo, hi := m.QPNRange(); m.Slot() != 0 || lo != 2 || hi != 0xfffffe {
		t.Errorf("slot %d with queue pairs %v to %v", m.Slot(), lo, hi)
	}
	if err := m.Listen("a"); err != nil {
		t.Error(err)
	}
	if err := m.Listen("a"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second listener: %v", err)
	}
	m.Unlisten("a")
	if err := m.Listen("a"); err != nil {
		t.Error(err)
	}
	other, _ := Join("", Options{Solo: true})
	var pe *PortError
	if _, err := other.Socket(addr); !errors.As(err, &pe) || pe.Addr != addr {
		t.Errorf("second process on the address: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := other.Socket(addr); err != nil {
		t.Errorf("after the first has closed: %v", err)
	}
	other.Close()
}
