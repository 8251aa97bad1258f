package rdmacm

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"verbena/verbs"
)

// The same where one datagram in a hundred is lost, again and again.
func TestTRPConnectionOnALossyNetwork(t *testing.T) {
	var first *verbs.Context
	until(t, "the managers of the tests before have ended", func() (ok bool) {
		var err error
		first, err = verbs.Open("", verbs.WithFaults("loss=1%,dup=1%,seed=5"))
		if err != nil && !errors.Is(err, syscall.EBUSY) {
			t.Fatal(err)
		}
		return err == nil
	})
	defer first.Close()
	for range 10 {
		testConnection(t, kinds[1], "127.0.0.1")
	}
}

// The UDP port is the kernel's: no other program has it, and who has it is not
// disturbed.
func TestTRPListenerHasTheUDPPort(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	if err := a.idOf(TRP).BindAddr(netip.MustParseAddrPort(taken.LocalAddr().String())); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("bound to a port that a program has: %v", err)
	}
	var l *testID
	var at netip.AddrPort
	for range 10 {
		l = a.listeningOf(TRP, loopback4, 0)
		at = l.LocalAddr()
		// A TCP port is another: both may have one number, unless a stranger has it.
		if err = b.idOf(IWARP).BindAddr(at); err == nil {
			break
		}
		check(t, l.Destroy())
	}
	check(t, err)
	if err := b.idOf(TRP).BindAddr(at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another process bound to the port: %v", err)
	}
	check(t, l.Destroy())
	c, err := net.ListenPacket("udp", at.String())
	check(t, err)
	check(t, c.Close())
}
