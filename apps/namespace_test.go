// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// insideVariable is set in the process that has the namespaces, to the number of
// the machine's /tmp.
const insideVariable = "VERBENA_APPS_INSIDE"

// The Ethernet interface that the namespace is given.
const (
	etherName = "rdma0"
	etherAddr = "10.77.0.1"
	etherSix  = "fd77::1"
)

// enter executes the test again in a network namespace of its own, in which it may
// also mount. It returns if there can be none, or if this is the one.
func enter() {
	if os.Getenv(insideVariable) != "" {
		return
	}
	unshare := []string{"unshare", "--net", "--mount"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--map-root-user")
	}
	path, err := exec.LookPath("unshare")
	if err == nil {
		err = exec.Command(path, append(unshare[1:], "true")...).Run()
	}
	if err != nil {
		fmt.Println("apps: no namespaces of our own:", err)
		return
	}
	os.Setenv(insideVariable, number("/tmp"))
	fmt.Println("apps: cannot execute again:", syscall.Exec(path, append(unshare, os.Args...), os.Environ()))
}

// device is one to run everything over.
type device struct {
	name string // of the device
	kind string // VERBENA_DEVICES; none is RoCE
	link string // VERBENA_NTB, with an s or a c put in
	addr string
	six  string // an IPv6 address
	what string // column of the table
}

// netdev is the interface of the device; an NTB link has none.
func (d *device) netdev() string {
	_, name, _ := strings.Cut(d.name, "_")
	return name
}

// devices brings the interfaces up and lists the devices: loopback first.
func devices() ([]device, error) {
	all := []device{{name: "roce_lo", addr: "127.0.0.1", six: "::1", what: "loopback"}}
	if os.Getenv(insideVariable) == "" {
		return append(all, etherOfMachine()...), nil
	}
	if err := shell("ip link set lo up"); err != nil {
		return nil, err
	}
	// Not every kernel has dummy interfaces; a veth pair is the same to us.
	for _, kind := range []string{"type dummy", "type veth peer name rdma0peer"} {
		if shell("ip link add %s %s", etherName, kind) == nil {
			break
		}
	}
	if _, err := net.InterfaceByName(etherName); err != nil {
		fmt.Println("apps: no Ethernet interface in the namespace: neither dummy nor veth")
		return all, nil
	}
	if net, err := net.InterfaceByName("rdma0peer"); err == nil {
		if err := shell("ip link set %s addrgenmode none up", net.Name); err != nil {
			return nil, err
		}
	}
	err := shell("ip link set %[1]s addrgenmode none up && ip addr add %[2]s/24 dev %[1]s && ip addr add %[3]s/64 dev %[1]s nodad", etherName, etherAddr, etherSix)
	return append(all, device{name: "roce_" + etherName, addr: etherAddr, six: etherSix, what: "Ethernet"}), err
}

// etherOfMachine is the machine's first other interface with both kinds of
// address.
func etherOfMachine() []device {
	list, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback != 0 || i.Flags&net.FlagUp == 0 {
			continue
		}
		d := device{name: "roce_" + i.Name, what: "Ethernet"}
		addrs, _ := i.Addrs() // none serve as well as an error
		for _, a := range addrs {
			switch n, ok := a.(*net.IPNet); {
			case !ok || n.IP.IsLinkLocalUnicast():
			case n.IP.To4() != nil:
				d.addr = n.IP.String()
			default:
				d.six = n.IP.String()
			}
		}
		if d.addr != "" {
			return []device{d}
		}
	}
	return nil
}

// iwarpDevices are those of iWARP on the last of the interfaces: the Ethernet one,
// as libfabric passes over loopback.
func iwarpDevices(of []device) []device {
	last := of[len(of)-1]
	on := func(kind, what string) device {
		d := last
		d.name, d.kind, d.what = strings.Replace(last.name, "roce", kind, 1), kind, what
		return d
	}
	return []device{on("iwarp", "iWARP"), on("trp", "TRP")}
}

// ntbDevice is an NTB link, of each exchange's own, by way of its back end. The
// server's address is also the host's, as programs exchange addresses by TCP.
func ntbDevice(of []device, way string) []device {
	d := of[len(of)-1]
	d.name, d.kind, d.what = "ntb0", "ntb", "NTB"
	d.link = "$ADDR+10.78.0.2=" + way
	return []device{d}
}

func shell(format string, args ...any) error {
	command := fmt.Sprintf(format, args...)
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(string(out)))
	}
	return nil
}
