// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"

	"verbena/ib"
	"verbena/internal/ntb/backend"
	"verbena/internal/sys/secenv"
)

// LinksVariable is the environment variable that names the NTB links of
// this machine, as backend.ParseEndpoints has them: each is a device of KindNTB.
const LinksVariable = "VERBENA_NTB"

// links are those configured.
var links struct {
	mu   sync.Mutex
	read bool          // guarded by mu: the list is that of the configuration
	list []ntbEndpoint // guarded by mu
}

// ntbEndpoint is a link as a device has it.
type ntbEndpoint struct {
	backend.Endpoint
	side int
}

// ConfigureLinks names the links, instead of the environment. It changes
// nothing of devices that are open.
//
// Errors: EINVAL if the text cannot be read, or names a place where nobody can meet.
func ConfigureLinks(text string) error { return configureLinks("links", text) }

// ConfigureVariable does the same with the value of LinksVariable, which its errors name.
func ConfigureVariable(text string) error { return configureLinks(LinksVariable, text) }

func configureLinks(arg, text string) error {
	var list []ntbEndpoint
	if text != "" {
		ends, err := backend.ParseEndpoints(text)
		if err != nil {
			return &Error{Arg: arg, Why: err.Error(), Err: syscall.EINVAL}
		}
		for _, e := range ends {
			if err := e.CheckPlace(); err != nil {
				return &Error{Arg: arg, Why: err.Error(), Err: syscall.EINVAL}
			}
			list = append(list, ntbEndpoint{Endpoint: e})
		}
	}
	links.mu.Lock()
	defer links.mu.Unlock()
	links.read, links.list = true, list
	return nil
}

// Links lists the devices of KindNTB alone, from the one with the index first on and at most limit
// of them. It returns their total number, too.
func Links(first, limit int) (list []Info, count int, err error) {
	links.mu.Lock()
	read := links.read
	links.mu.Unlock()
	if !read {
		if err := ConfigureVariable(secenv.Get(LinksVariable)); err != nil {
			return nil, 0, err
		}
	}
	links.mu.Lock()
	all := links.list // which is never changed, only replaced
	links.mu.Unlock()
	for i := first; i < len(all) && len(list) < limit; i++ {
		d := Info{Name: fmt.Sprintf("%s%d", KindNTB, i), Kind: KindNTB, Index: i, link: all[i]}
		list = append(list, d.OnSide(backend.SideOf(all[i].Endpoint)))
	}
	return list, len(all), nil
}

// OnSide returns a device of KindNTB as it is at an end of its link, 0 or 1. Some links know their
// end only when they are open.
func (d Info) OnSide(side int) Info {
	d.link.side = side
	host, _ := os.Hostname() // without one the link has to do
	name := fmt.Sprintf("%v", d.link.Endpoint)
	if d.Shared() { // one port for all processes of a side, however each says which that is
		name = d.link.Path
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", host, name, side))
	d.GUID = ib.GUID(binary.BigEndian.Uint64(h[:])&^(3<<56) | 2<<56)
	return d
}

// Link returns how a device of KindNTB finds its peer.
func (d *Info) Link() backend.Endpoint { return d.link.Endpoint }

// Shared reports whether a device of KindNTB is a shared-memory hub. Any number of
// processes have it, on either side, and each of them connects to all, also to itself.
func (d *Info) Shared() bool { return d.Kind == KindNTB && d.link.Kind == backend.Shm }

// PeerPort returns the address of the port at the other end of the link, if the
// configuration says it.
func (d *Info) PeerPort() (netip.Addr, bool) {
	a := d.link.Ports[1-d.link.side]
	return a, a.IsValid() && a != d.link.Ports[d.link.side]
}

// NamesPort reports whether the configuration says that an address is that of a port
// of the link, at either end.
func (d *Info) NamesPort(a netip.Addr) bool { return slices.Contains(d.link.Ports[:], a) }

// ntbAddrs returns the addresses of the port: an IPv6 link-local one made of the
// GUID, as an interface has, and the one configured.
func (d *Info) ntbAddrs() []netip.Addr {
	var local [16]byte
	local[0], local[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(local[8:], uint64(d.GUID))
	out := []netip.Addr{netip.AddrFrom16(local)}
	if a := d.link.Ports[d.link.side]; a.IsValid() {
		out = append(out, a)
	}
	return out
}

// ntbAttr returns the attributes of an NTB link: reliable connected queue pairs
// and their limits.
func (d *Info) ntbAttr() ib.DeviceAttr {
	return ib.DeviceAttr{
		FWVer: "1.0.0", NodeType: ib.NodeCA, NodeGUID: d.GUID, SysImageGUID: d.GUID,
		MaxMRSize: 1<<63 - 1, PageSizeCap: 0xfffff000,
		VendorID: 0xffffff, VendorPartID: 3, HWVer: 1,
		MaxQP: MaxQP, MaxQPWR: MaxQPWR,
		DeviceCapFlags: ib.CapCurrQPStateMod | ib.CapSysImageGUID | ib.CapRCRNRNAKGen |
			ib.CapSRQResize |
			ib.CapMemWindow | ib.CapMemWindowType2B | ib.CapMemMgtExtensions,
		MaxSGE: ib.MaxSGE, MaxSGERd: ib.MaxSGE, MaxInlineData: MaxInline,
		MaxCQ: maxObjects, MaxCQE: MaxCQE, MaxMR: maxObjects, MaxPD: maxObjects,
		MaxQPRdAtom: MaxRdAtomic, MaxResRdAtom: MaxRdAtomic * MaxQP, MaxQPInitRdAtom: MaxRdAtomic,
		AtomicCap: ib.AtomicHCA, MaxMW: maxObjects,
		MaxAH: maxObjects, MaxSRQ: maxObjects, MaxSRQWR: MaxSRQWR, MaxSRQSGE: ib.MaxSGE,
		MaxFastRegPages: MaxFRSegs, MaxPKeys: 1, LocalCAAckDelay: 15, PhysPortCnt: 1,
		MaxDMSize: MaxDMSize, HCACoreClock: coreClock, CompletionTimestampMask: math.MaxUint64,
		ODPCaps: ib.ODPCaps{General: odpGeneral, RC: odpRC},
	}
}

// ntbPort are the attributes of its port while the link is down. The process that has the link open
// knows better. The port of a shared-memory hub is active: it leads to itself at least.
func (d *Info) ntbPort() ib.PortAttr {
	a := ib.PortAttr{
		State: ib.PortDown, MaxMTU: ib.MTU4096, ActiveMTU: ib.MTU4096, GIDTblLen: 2,
		MaxMsgSz: ib.MaxMessage, PKeyTblLen: 1,
		PortCapFlags: portCM,
		MaxVLNum:     1, ActiveWidth: 1, ActiveSpeed: 1, PhysState: 3, LinkLayer: ib.LinkEthernet,
	}
	if d.Shared() {
		a.State, a.PhysState = ib.PortActive, 5
	}
	return a
}

// checkNTB is CheckModify of a queue pair on an NTB link. All that is sent
// goes to the one peer that there is: an address vector without a GRH, by LID, is as good
// as one with.
func checkNTB(cur ib.QPState, a *ib.QPAttr, mask ib.QPAttrMask, l *Limits) (ib.QPState, error) {
	next, err := checkTransition(ib.QPTypeRC, cur, a, mask)
	if err == nil {
		err = checkRanges(a, mask, l)
	}
	if err != nil {
		return cur, err
	}
	grh := &a.AH.GRH
	switch dst := grh.DGID.Addr(); {
	case mask&ib.QPAV == 0 || !a.AH.IsGlobal:
	case int(grh.SGIDIndex) >= len(l.GIDs):
		return cur, invalid("AH.GRH.SGIDIndex",
			"%d: the GID table has %d entries; see `verbena devinfo -v`", grh.SGIDIndex,
			len(l.GIDs))
	case len(l.Peers) > 0 && slices.Contains(l.Peers, dst):
	case slices.Contains(l.GIDs, dst):
		return cur, invalid("AH.GRH.DGID",
			"%v is this end of the link: queue pairs connect to the other", dst)
	case len(l.Peers) > 0:
		return cur, invalid("AH.GRH.DGID", "%v is not at the other end of the link, which has %v",
			dst, l.Peers)
	}
	return next, nil
}
