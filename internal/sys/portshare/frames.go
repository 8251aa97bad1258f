// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"verbena/internal/sys/xsk"
)

// Interface names an interface whose datagrams go past the kernel's IP stack (package xsk), and how
// many of its queues.
type Interface struct {
	Name   string
	Queues int
}

// ParseInterfaces reads a list such as "eth0,eth1:4".
func ParseInterfaces(list string) (all []Interface, err error) {
	if list == "" {
		return nil, nil
	}
	named := map[string]bool{}
	for _, s := range strings.Split(list, ",") {
		name, queues, counted := strings.Cut(s, ":")
		i := Interface{Name: name, Queues: 1}
		if counted {
			if i.Queues, err = strconv.Atoi(queues); err != nil {
				i.Queues = 0
			}
		}
		if name == "" || i.Queues < 1 || i.Queues > xsk.MaxQueues {
			return nil, fmt.Errorf("%q is no interface: want a name such as eth0, or eth0:4 for "+
				"4 queues, at most %d", s, xsk.MaxQueues)
		}
		if named[name] {
			return nil, fmt.Errorf("%q names %s twice", list, name)
		}
		named[name] = true
		all = append(all, i)
	}
	return all, nil
}

// Steering has the kernel give datagrams that come by an interface to sockets of package xsk.
type Steering interface {
	// Add has datagrams to an address go to the sockets. Remove ends that.
	Add(netip.Addr) error
	Remove(netip.Addr)
	// Give has the datagrams of a slot go to sockets, one for each queue. Take ends that.
	Give(slot int, sockets []int) error
	Take(slot int)
	// AddPort has datagrams to another port than Port go to the sockets of a slot. RemovePort ends
	// that.
	AddPort(a netip.AddrPort, slot int) error
	RemovePort(netip.AddrPort)
	// Close ends all.
	Close()
}

// Attach starts the Steering of an interface: xdp.Attach. It is a function because only the
// keeper's program needs the code.
type Attach func(i *net.Interface, queues int) (Steering, error)

// FramesError says why an interface's frames are not to be had.
type FramesError struct {
	Name string
	Err  error
}

func (e *FramesError) Error() string { return e.Name + ": " + e.Err.Error() }

func (e *FramesError) Unwrap() error { return e.Err }
