// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"verbena/ib"
)

// Kind is a transport: the first part of a device's name.
type Kind string

// Kinds.
const (
	KindRoCE  Kind = "roce"  // RoCEv2 over UDP
	KindIWARP Kind = "iwarp" // iWARP over TCP; see iwarp.go for its differences
	KindTRP   Kind = "trp"   // iWARP over UDP, by TRP as urdma has it
	KindNTB   Kind = "ntb"   // an NTB link; see ntb.go
)

// IsIWARP reports whether a kind's devices are iWARP's, over any transport of segments.
func (k Kind) IsIWARP() bool { return k == KindIWARP || k == KindTRP }

// Info names a device.
type Info struct {
	Name   string // kind, underscore, network interface: roce_eth0
	Kind   Kind
	NetDev string
	GUID   ib.GUID // EUI-64 of the interface's MAC address
	Index  int     // the interface's

	link ntbEndpoint // of KindNTB, which has a number in its name and no interface
}

// Number is the device's own among all of this machine, as the numbers of
// /dev/infiniband/uverbs are. RoCEv2's is its interface's.
func (d *Info) Number() int { return slices.Index(kinds, d.Kind)<<16 | d.Index }

// Kinds returns all kinds that this system has, in the order of All.
func Kinds() []Kind { return slices.Clone(kinds) }

// All returns the devices of this machine, RoCEv2 first. Each kind has one for each network
// interface that has an address, loopback last. At the end comes one for each NTB link that is
// configured.
func All() ([]Info, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var on, out []Info
	for _, loopback := range []net.Flags{0, net.FlagLoopback} {
		for _, i := range ifs {
			if i.Flags&net.FlagLoopback != loopback {
				continue
			}
			if addrs, err := i.Addrs(); err == nil && len(addrs) > 0 {
				on = append(on, Info{NetDev: i.Name, GUID: guid(&i), Index: i.Index})
			}
		}
	}
	forgetTables(on)
	for _, k := range kinds {
		if k == KindNTB {
			of, _, err := Links(0, math.MaxInt)
			if err != nil {
				return nil, err
			}
			out = append(out, of...)
			continue
		}
		for _, d := range on {
			d.Kind, d.Name = k, string(k)+"_"+d.NetDev
			out = append(out, d)
		}
	}
	return out, nil
}

// guid is the EUI-64 of a MAC address, or, where there is none, a name of this
// host and interface in the locally administered space.
//
// Spec: RFC 4291, appendix A.
func guid(i *net.Interface) ib.GUID {
	mac := i.HardwareAddr
	if len(mac) != 6 || slices.Equal(mac, make(net.HardwareAddr, 6)) {
		host, _ := os.Hostname() // without one the interface's name has to do
		h := sha256.Sum256([]byte(host + "\x00" + i.Name))
		return ib.GUID(binary.BigEndian.Uint64(h[:])&^(3<<56) | 2<<56)
	}
	return ib.GUID(binary.BigEndian.Uint64([]byte{mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3],
		mac[4], mac[5]}))
}

// systemAddrs returns the unicast addresses of a device in the order in which a GID table is
// filled.
func (d *Info) systemAddrs() ([]netip.Addr, error) {
	i, err := interfaceNow(d.NetDev)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(i.addrs)
	for k, a := range out {
		out[k] = d.zoned(a)
	}
	return out, nil
}

// zoned returns an address as sockets want it: link-local ones with the
// interface as zone.
func (d *Info) zoned(a netip.Addr) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(d.NetDev)
	}
	return a
}

// Find returns the device of a name; with no name the first whose port is
// active, which is one of RoCEv2.
func Find(name string) (Info, error) {
	list, err := All()
	if err != nil {
		return Info{}, err
	}
	for _, d := range list {
		if d.Name == name || name == "" && d.PortAttr().State == ib.PortActive {
			return d, nil
		}
	}
	return Info{}, &Error{Arg: "device " + quote(name), Why: "no such device; " + thereAre(list),
		Err: errNoDevice}
}

// thereAre suggests names that the user might have meant.
func thereAre(list []Info) string {
	if len(list) == 0 {
		return "there is none: no network interface has an address"
	}
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	return "there are " + strings.Join(names, ", ")
}
