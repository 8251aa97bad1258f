// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"verbena/internal/device"
)

// onLinks has the programs that use only features of NTB links. These lack datagrams, other types
// of queue pairs and free choice of IPv6 addresses. They lack one address at both ends, and an end
// in a child as well as in its parent.
var onLinks = []string{
	"cm_external", "cm_errors", "cm_pending_disconnect", "cm_given_up", "cm_lifetime", "cm_migrate", "cm_reject", "cm_sync", "cm_closefrom", "cm_addrinfo",
	"rsocket_stream", "rsocket_poll", "rsocket_iomap",
}

// verbsOnLinks has programs of libibverbs about reliable connections and features of all devices.
// Both ends are on one device: on a shared-memory hub a process connects to itself.
var verbsOnLinks = []string{
	"closefrom", "closefrom_busy", "cq_ex", "daemon", "events", "exit", "failed_peer", "fork", "fork_threads", "forked_objects", "mw", "objects", "odp", "peers", "poller",
	"rc", "recvs", "refusals", "signals", "small_stacks", "srq", "unmapped",
}

func TestVerbsOnLinks(t *testing.T) {
	for variable, value := range map[string]string{"VERBENA_DEVICES": "ntb", "LOOP_DEVICE": "ntb0", "LOOP_ADDRESS": "10.99.0.1"} {
		t.Setenv(variable, value)
	}
	for _, name := range verbsOnLinks {
		t.Run(name, func(t *testing.T) {
			t.Setenv(device.LinksVariable, "10.99.0.1+10.99.0.2=shm:s:"+filepath.Join(t.TempDir(), "link"))
			run(t, "verbs_"+name)
		})
	}
}

// TestOnLinks runs programs that open both ends of a link.
func TestOnLinks(t *testing.T) {
	t.Setenv("VERBENA_DEVICES", "ntb")
	for _, name := range onLinks {
		t.Run(name, func(t *testing.T) {
			end := "10.99.0.1+10.99.0.2=shm:" + filepath.Join(t.TempDir(), "link")
			t.Setenv(device.LinksVariable, end+","+end)
			run(t, name, "10.99.0.2")
		})
	}
}

// TestLinksAreThoseOfGo compares the NTB links of C with those of Go.
func TestLinksAreThoseOfGo(t *testing.T) {
	at := t.TempDir()
	text := "10.99.0.1+10.99.0.2=shm:" + at + "/a,10.99.1.1=s:127.77.0.4:7471"
	t.Setenv(device.LinksVariable, text)
	if err := device.ConfigureLinks(text); err != nil {
		t.Fatal(err)
	}
	defer device.ConfigureLinks("")
	for _, selected := range []string{"ntb", "ntb1", "roce,ntb0", "ntb1,trp,ntb"} {
		t.Run(selected, func(t *testing.T) { compareDevices(t, selected) })
	}
	if got := output(t, "print_devices", "VERBENA_DEVICES=ntb2,ntbx"); got != "" {
		t.Errorf("devices of no link: %q", got)
	}
}

// TestManyLinks lists more links than the first guess of the front.
func TestManyLinks(t *testing.T) {
	var links []string
	for i := range 200 {
		links = append(links, fmt.Sprintf("10.99.0.%d=shm:%s/%d", 1+i, t.TempDir(), i))
	}
	text := strings.Join(links, ",")
	t.Setenv(device.LinksVariable, text)
	if err := device.ConfigureLinks(text); err != nil {
		t.Fatal(err)
	}
	defer device.ConfigureLinks("")
	compareDevices(t, "ntb")
	compareDevices(t, "ntb199,ntb64")
}

// TestLinkGIDCost does the same as TestGIDCost on a link.
func TestLinkGIDCost(t *testing.T) {
	t.Setenv("VERBENA_DEVICES", "ntb")
	t.Setenv("LOOP_DEVICE", "ntb0")
	t.Setenv(device.LinksVariable, "10.99.0.1+10.99.0.2=shm:"+filepath.Join(t.TempDir(), "link"))
	run(t, "verbs_gid_cost")
}
