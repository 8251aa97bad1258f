package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind is a way to join windows.
type Kind uint8

// Kinds.
const (
	TCP Kind = iota
	Shm
	Mapped
	PCI
)

// An Endpoint is one end of a link, as a configuration names it.
type Endpoint struct {
	Kind  Kind
	Serve bool           // TCP: wait for the peer, instead of going to it; Shm: of side 0
	Meet  bool           // Shm: whoever comes first is of side 0
	Addr  netip.AddrPort // TCP
	Path  string         // Shm: of the directory; Mapped: of the file; PCI: the address of the device
	Side  int            // Mapped, PCI: 0 or 1

	// Node is the NUMA node that our window's memory and the thread that works
	// the link are placed on, if OnNode.
	OnNode bool
	Node   int

	// Ports are the IP addresses of the ports at the ends, where the configuration
	// says them: that of side 0 and that of side 1. Of one address, which is the
	// end's own, both are the same.
	Ports [2]netip.Addr
}

// ParseEndpoints reads a configuration, links with commas between:
//
//	s:ADDR:PORT   c:ADDR:PORT   TCP, as the original has it; IPv6 addresses in brackets
//	shm:s:PATH    shm:c:PATH    shared memory, of processes that meet in a directory: of side 0 or 1
//	shm:PATH                    … of side 0 if nobody is there, else of side 1
//	map:0:PATH    map:1:PATH    a file, or the BAR of a PCI device, as a file
//	pci:0:DEVICE  pci:1:DEVICE  BAR 2 of the PCI device at an address: pci:0:0000:00:04.0
//
// Before each may stand the IP address of its port, or those of both ends: of the one that waits
// (s, 0, the first to come), and of the other.
//
//	10.99.0.1=c:192.0.2.1:7000   10.99.0.1+10.99.0.2=shm:/run/link
//
// and before these node=N: for the NUMA node that our window and our thread are
// to be on: node=1:10.99.0.1=c:192.0.2.1:7000
//
// Errors: ErrConfig.
func ParseEndpoints(s string) (list []Endpoint, err error) {
	for _, part := range strings.Split(s, ",") {
		e, ok := parseNode(part)
		if !ok {
			return nil, fmt.Errorf("%w: %q is not s:ADDR:PORT, c:ADDR:PORT, shm:PATH, shm:s:PATH, shm:c:PATH, map:0:PATH, map:1:PATH, pci:0:DEVICE or pci:1:DEVICE, maybe behind ADDR= or ADDR+ADDR=, and these behind node=N:", ErrConfig, part)
		}
		list = append(list, e)
	}
	return list, nil
}

func parseNode(s string) (e Endpoint, ok bool) {
	rest, found := strings.CutPrefix(s, "node=")
	if !found {
		return parsePorts(s)
	}
	number, rest, _ := strings.Cut(rest, ":")
	node, err := strconv.ParseUint(number, 10, 16)
	e, ok = parsePorts(rest)
	e.OnNode, e.Node = true, int(node)
	return e, ok && err == nil
}

func parsePorts(s string) (e Endpoint, ok bool) {
	addrs, rest, found := strings.Cut(s, "=")
	if !found || strings.Contains(addrs, "/") { // of a path
		return parseEndpoint(s)
	}
	if e, ok = parseEndpoint(rest); !ok {
		return e, false
	}
	first, second, both := strings.Cut(addrs, "+")
	if !both {
		second = first
	}
	for i, s := range []string{first, second} {
		a, err := netip.ParseAddr(s)
		if err != nil || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" {
			return e, false
		}
		e.Ports[i] = a.Unmap()
	}
	// Those of two families would find no way to each other.
	return e, !both || e.Ports[0] != e.Ports[1] && e.Ports[0].Is4() == e.Ports[1].Is4()
}

// pciAddress is domain, bus, device and function, as sysfs has them.
var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)

func parseEndpoint(s string) (e Endpoint, ok bool) {
	first, rest, _ := strings.Cut(s, ":")
	switch first {
	case "s", "c":
		addr, err := netip.ParseAddrPort(rest)
		return Endpoint{Serve: first == "s", Addr: addr}, err == nil && addr.Port() != 0
	case "shm":
		role, path, found := strings.Cut(rest, ":")
		if found && (role == "s" || role == "c") {
			return Endpoint{Kind: Shm, Serve: role == "s", Path: path}, path != ""
		}
		// A word before a colon is meant as a role: shm:0:PATH is no path, nor is shm:s.
		return Endpoint{Kind: Shm, Meet: true, Path: rest}, !slices.Contains([]string{"", "s", "c"}, rest) && (!found || strings.Contains(role, "/"))
	case "map", "pci":
		side, path, _ := strings.Cut(rest, ":")
		e = Endpoint{Kind: Mapped, Path: path}
		if first == "pci" {
			e.Kind = PCI
		}
		if side == "1" {
			e.Side = 1
		}
		return e, (side == "0" || side == "1") && path != "" && (first == "map" || pciAddress.MatchString(path))
	}
	return Endpoint{}, false
}

// String returns the endpoint as a configuration has it, without the addresses
// of ports.
func (e Endpoint) String() string {
	role := "c"
	if e.Serve {
		role = "s"
	}
	switch {
	case e.Kind == TCP:
		return role + ":" + e.Addr.String()
	case e.Kind == Mapped:
		return fmt.Sprintf("map:%d:%s", e.Side, e.Path)
	case e.Kind == PCI:
		return fmt.Sprintf("pci:%d:%s", e.Side, e.Path)
	case e.Meet:
		return "shm:" + e.Path
	}
	return "shm:" + role + ":" + e.Path
}

// Temporary reports whether an error of Open may be gone at the next try.
func Temporary(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, ErrLost) || errors.Is(err, ErrProtocol)
}
