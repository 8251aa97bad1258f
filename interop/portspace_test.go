// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"path/filepath"
	"testing"

	"verbena/interop/guest"
)

// TestIBPortSpace has rdma-core's ucmatose connect in the IB port space. There Linux sends the same
// IP header in front of the private data as in TCP's. Our end is the same program over our
// libraries.
func TestIBPortSpace(t *testing.T) { testIBPortSpace(t, newWire(t, guest.UML)) }

func testIBPortSpace(t *testing.T, w wire) {
	t.Helper()
	w.exchange(t, "IPv4", func(t *testing.T, p pair) {
		betweenListeners(t, p, fmt.Sprintf("ucmatose -P ib -b %v", p.addr()), fmt.Sprintf("ucmatose -P ib -s %v", p.addr()))
	})
}

// onceItListens is a client's command, repeated while nobody listens yet where it connects to.
// perftest's clients say over TCP that they could not connect, and qperf's name the event.
func onceItListens(command string) string {
	return fmt.Sprintf(`while :; do said=$(%s 2>&1); status=$?; case $said in *"onnection refused"*|*"Event rejected"*|*"ouldn't connect to"*) sleep 0.05;; *) break;; esac; done; echo "$said"; exit $status`, command)
}

// unmodified is the command of a program on a host: a guest has the system's
// libraries.
func unmodified(host guest.Host, program string) string {
	c := "stdbuf -oL " + program
	if _, isGuest := host.(*guest.Guest); isGuest {
		return c
	}
	return "LD_LIBRARY_PATH=" + filepath.Join(programs, "lib") + " " + c
}
