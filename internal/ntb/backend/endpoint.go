// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
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
	Meet  bool           // Shm: the first process is of side 0
	Addr  netip.AddrPort // TCP
	From  netip.Prefix   // TCP, of one that waits: the peers it takes; the zero Prefix is all
	// Shm: of the directory; Mapped: of the file; PCI: the address of the device
	Path string
	Side int // Mapped, PCI: 0 or 1

	// Node is the NUMA node that our window's memory and the thread that works
	// the link are placed on, if OnNode.
	OnNode bool
	Node   int

	// Secret names the file of the secret that both ends of TCP must know; empty for none.
	Secret string

	// Ports are the IP addresses of the ports at the ends, if the configuration names them: that of
	// side 0 and that of side 1. With a single address, which is the end's own, both are the same.
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
// A TCP link that waits may name the peers that it takes: @ and one address, or a network.
// Before all but the node, secret=FILE: names a file with the secret of both ends: at least
// 16 bytes, which no other user may read. The name has no colon.
//
//	s:192.0.2.1:7000@192.0.2.2   secret=/etc/link.key:s:192.0.2.1:7000@192.0.2.0/24
//
// No two links may be the same end of one, and no two ports have one address.
//
// Errors: ErrConfig, which names the link and its error.
func ParseEndpoints(s string) (list []Endpoint, err error) {
	for _, part := range strings.Split(s, ",") {
		if part == "" {
			return nil, fmt.Errorf("%w: no link stands before or behind a comma",
				ErrConfig)
		}
		e, err := parseNode(part)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrConfig, part, err)
		}
		for _, o := range list {
			if err := e.clash(&o); err != nil {
				return nil, fmt.Errorf("%w: %q: %w", ErrConfig, part, err)
			}
		}
		list = append(list, e)
	}
	return list, nil
}

// CheckPlace says why processes cannot meet at the directory of an endpoint's shared
// memory. The first process makes the directory. The one above it must exist.
//
// Errors: ErrConfig.
func (e *Endpoint) CheckPlace() error {
	if e.Kind != Shm {
		return nil
	}
	for _, dir := range []string{filepath.Dir(e.Path), e.Path} {
		fi, err := os.Stat(dir)
		switch {
		case err != nil && dir != e.Path:
			return fmt.Errorf("%w: %s: its parent directory %s does not exist: make it, or "+
				"name another path", ErrConfig, e.Path, dir)
		case err == nil && !fi.IsDir():
			return fmt.Errorf("%w: %s is not a directory: remove it, or name another path",
				ErrConfig, dir)
		}
	}
	return nil
}

// clash says why a link cannot be beside another one, nil if it can.
func (e *Endpoint) clash(o *Endpoint) error {
	if e.String() == o.String() && !e.Meet {
		return errors.New("this end of the link is named twice")
	}
	a, b := e.ownPorts(), o.ownPorts()
	both := len(a) == 2 && len(b) == 2 && e.Path == o.Path // of either end of one link
	if i := slices.IndexFunc(a, func(x netip.Addr) bool {
		return slices.Contains(b, x)
	}); i >= 0 && !both {
		return fmt.Errorf("another link's port has the address %v, too: each has its own", a[i])
	}
	return nil
}

// ownPorts returns the address that our port has: of Meet those of both ends, as it may
// be either; none if the configuration does not say it.
func (e *Endpoint) ownPorts() []netip.Addr {
	own := 0
	switch {
	case !e.Ports[0].IsValid():
		return nil
	case e.Meet && e.Ports[0] != e.Ports[1]:
		return e.Ports[:]
	case e.Kind == Mapped || e.Kind == PCI:
		own = e.Side
	case !e.Serve && !e.Meet:
		own = 1
	}
	return e.Ports[own : own+1]
}

func parseNode(s string) (Endpoint, error) {
	rest, found := strings.CutPrefix(s, "node=")
	if !found {
		return parseSecret(s)
	}
	number, rest, _ := strings.Cut(rest, ":")
	node, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return Endpoint{}, errors.New("a link on a NUMA node is node=N:…, with its number")
	}
	e, err := parseSecret(rest)
	e.OnNode, e.Node = true, int(node)
	return e, err
}

func parseSecret(s string) (Endpoint, error) {
	rest, found := strings.CutPrefix(s, "secret=")
	if !found {
		return parsePorts(s)
	}
	file, rest, _ := strings.Cut(rest, ":")
	e, err := parsePorts(rest)
	if err == nil && (e.Kind != TCP || file == "") {
		err = errors.New("a link with a secret is secret=FILE:… before one of TCP, s:ADDR:PORT " +
			"or c:ADDR:PORT")
	}
	e.Secret = file
	return e, err
}

// parseFrom reads which peers may connect: an address, or a network.
func parseFrom(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		var a netip.Addr
		if a, err = netip.ParseAddr(s); err == nil {
			p, err = a.Unmap().Prefix(a.Unmap().BitLen())
		}
	}
	if err != nil {
		return p, fmt.Errorf("%q is neither an IP address nor a network, as in "+
			"s:ADDR:PORT@192.0.2.2 or s:ADDR:PORT@192.0.2.0/24", s)
	}
	return p, nil
}

func parsePorts(s string) (Endpoint, error) {
	addrs, rest, found := strings.Cut(s, "=")
	if !found || strings.Contains(addrs, "/") { // of a path
		return parseEndpoint(s)
	}
	e, err := parseEndpoint(rest)
	if err != nil {
		return e, err
	}
	first, second, both := strings.Cut(addrs, "+")
	if !both {
		second = first
	}
	for i, s := range []string{first, second} {
		a, err := netip.ParseAddr(s)
		if err != nil || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" {
			return e, fmt.Errorf("%q is not the IP address of a port", s)
		}
		e.Ports[i] = a.Unmap()
	}
	switch {
	case both && e.Ports[0] == e.Ports[1]:
		return e, errors.New("the ports of both ends have one address: each has its own")
	case e.Ports[0].Is4() != e.Ports[1].Is4():
		return e, errors.New("the ports of the two ends have an IPv4 and an IPv6 address: they " +
			"would find no way to each other")
	}
	return e, nil
}

// isPCIAddress reports whether s is domain, bus, device and function, as sysfs has them:
// 0000:00:1f.7. Package regexp would make a small program 350 KB longer.
func isPCIAddress(s string) bool {
	domain, s, _ := strings.Cut(s, ":")
	bus, s, _ := strings.Cut(s, ":")
	device, function, _ := strings.Cut(s, ".")
	return len(domain) >= 4 && len(domain) <= 8 && isHex(domain) && len(bus) == 2 && isHex(bus) &&
		len(device) == 2 && device[0] <= '1' && isHex(device) &&
		len(function) == 1 && function[0] >= '0' && function[0] <= '7'
}

// isHex reports whether s has hexadecimal digits only, as sysfs writes them.
func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func parseEndpoint(s string) (Endpoint, error) {
	kind, rest, _ := strings.Cut(s, ":")
	switch kind {
	case "s", "c":
		return parseTCP(kind, rest)
	case "shm":
		return parseShm(rest)
	case "map":
		return parseSide(Mapped, rest, isPath,
			"a file is map:0:PATH at one end and map:1:PATH at the other")
	case "pci":
		return parseSide(PCI, rest, isPCIAddress,
			"a PCI device is pci:0:DEVICE or pci:1:DEVICE, by its name in /sys/bus/pci/devices, "+
				"such as 0000:00:04.0")
	}
	return Endpoint{}, errors.New("it is not s:ADDR:PORT, s:ADDR:PORT@PEER, c:ADDR:PORT, " +
		"shm:PATH, shm:s:PATH, shm:c:PATH, map:0:PATH, map:1:PATH, pci:0:DEVICE or pci:1:DEVICE, " +
		"with ADDR= or ADDR+ADDR= before it if you want, and node=N: before all for a NUMA node")
}

// parseTCP reads ADDR:PORT, and of the end that waits (s) ADDR:PORT@PEER.
func parseTCP(role, s string) (e Endpoint, err error) {
	s, from, limited := strings.Cut(s, "@")
	if limited && role == "c" {
		return e, errors.New("@PEER limits the peers of the end that waits: it belongs to " +
			"s:ADDR:PORT@PEER there")
	}
	if limited {
		if e.From, err = parseFrom(from); err != nil {
			return e, err
		}
	}
	e.Serve = role == "s"
	if e.Addr, err = netip.ParseAddrPort(s); err != nil || e.Addr.Port() == 0 {
		return e, fmt.Errorf("TCP is %s:ADDR:PORT, an IP address, one of IPv6 in brackets, and a "+
			"port from 1 to 65535", role)
	}
	return e, nil
}

// parseShm reads PATH, s:PATH or c:PATH. A word before a colon is meant as a role: 0:PATH is no
// path, nor is s alone.
func parseShm(s string) (Endpoint, error) {
	e := Endpoint{Kind: Shm, Meet: true, Path: s}
	role, path, found := strings.Cut(s, ":")
	isRole := role == "s" || role == "c"
	if isRole {
		e = Endpoint{Kind: Shm, Serve: role == "s", Path: path}
	}
	if e.Path == "" || found && !isRole && !strings.Contains(role, "/") {
		return e, errors.New("shared memory is shm:PATH, shm:s:PATH or shm:c:PATH, a directory " +
			"that the processes share")
	}
	return e, nil
}

func isPath(s string) bool { return strings.Trim(s, "\n") != "" }

// parseSide reads 0:PATH or 1:PATH of a kind with valid paths; usage is the error of others.
func parseSide(k Kind, s string, valid func(string) bool, usage string) (Endpoint, error) {
	side, path, _ := strings.Cut(s, ":")
	e := Endpoint{Kind: k, Path: path}
	if side != "0" && side != "1" || !valid(path) {
		return e, errors.New(usage)
	}
	e.Side = int(side[0] - '0')
	return e, nil
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
	return errors.Is(err, ErrTimeout) || errors.Is(err, ErrLost) || errors.Is(err, ErrProtocol) ||
		errors.Is(err, ErrSecret)
}
