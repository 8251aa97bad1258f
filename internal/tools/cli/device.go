// SPDX-License-Identifier: BSD-2-Clause

package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/recorder"
	"verbena/rdmacm"
	"verbena/verbs"
)

// Device are the options by which every command chooses and opens its device.
type Device struct {
	Name    string // empty is the first with an active port
	Kind    string // of devices, where no name says it; empty is RoCE
	Capture string // pcapng file, empty is none
	Ring    string // size of the newest packets to keep, empty is none
	Calls   bool   // verbs calls go into the capture
	Faults  string // fault injection, empty is none
	NoLocal bool   // sockets also between processes of this host
	XDP     string // interfaces whose RoCE packets go past the kernel's IP stack
	NoCRC   bool   // of iWARP streams; used if either end wants them
}

// NameFlag declares --ib-dev; shorthand is a letter or empty.
func (d *Device) NameFlag(fs *pflag.FlagSet, shorthand string) {
	fs.StringVarP(&d.Name, "ib-dev", shorthand, "",
		"use device `DEV` (default the first with an active port)")
}

// KindFlag declares --kind, for commands that find their device by an address.
func (d *Device) KindFlag(fs *pflag.FlagSet) {
	fs.StringVar(&d.Kind, "kind", string(rdmacm.RoCE),
		"use devices of `KIND`, the first part of their names")
}

// WireFlags declares --pcap, --pcap-ring, --pcap-calls, --faults, --no-local, --xdp and --no-crc.
func (d *Device) WireFlags(fs *pflag.FlagSet) {
	fs.StringVar(&d.Capture, "pcap", "", "write every packet sent and received to `FILE` (pcapng)")
	fs.StringVar(&d.Ring, "pcap-ring", "",
		"keep the newest packets, of `SIZE` bytes such as 64M, and write them to FILE of --pcap "+
			"when a completion fails or on SIGUSR1; see 'verbena stat dump --help'")
	fs.BoolVar(&d.Calls, "pcap-calls", false,
		"write verbs calls and completions into the capture too, for 'verbena view'")
	fs.StringVar(&d.Faults, "faults", "",
		"inject faults into the packets sent: `SPEC` is "+
			"loss=1%,dup=1%,reorder=1%,corrupt=1%,delay=2ms,seed=7; "+
			"over TCP only corrupt, delay, jitter and cut=1%")
	fs.BoolVar(&d.NoLocal, "no-local", false,
		"use UDP, not shared memory, between processes of this host; --pcap and --faults imply it")
	fs.StringVar(&d.XDP, "xdp", "",
		"RoCE: send and receive past the kernel's IP stack at `INTERFACES`, such as eth0 or "+
			"eth0:4 for 4 queues; the keeper of the port needs CAP_NET_RAW, CAP_NET_ADMIN and "+
			"CAP_BPF")
	fs.BoolVar(&d.NoCRC, "no-crc", false,
		"iWARP: leave CRCs out, if the peer agrees")
}

// Options returns the options for verbs.Open.
func (d *Device) Options() []verbs.Option {
	var opts []verbs.Option
	if bytes, err := recorder.ParseSize(d.Ring); err == nil { // Check has reported an error
		file := d.Capture
		if file == "" {
			file = fmt.Sprintf("verbena-%d.pcapng", os.Getpid())
		}
		opts = append(opts, verbs.WithCaptureRing(file, bytes))
	} else if d.Capture != "" {
		opts = append(opts, verbs.WithCapture(d.Capture))
	}
	if d.Calls {
		opts = append(opts, verbs.WithCaptureCalls())
	}
	if d.Faults != "" {
		opts = append(opts, verbs.WithFaults(d.Faults))
	}
	if d.NoLocal {
		opts = append(opts, verbs.WithoutLocalPath())
	}
	if d.XDP != "" {
		opts = append(opts, verbs.WithXDP(d.XDP))
	}
	return opts
}

// Check makes the checks that need no device.
func (d *Device) Check() error {
	if _, err := faultcap.ParseFaults(d.Faults); err != nil {
		return Usagef("--%w", err) // its errors begin "faults: "
	}
	if _, err := recorder.ParseSize(d.Ring); d.Ring != "" && err != nil {
		return Usagef("--pcap-ring: %w", err)
	}
	if d.Calls && d.Capture == "" && d.Ring == "" {
		return Usagef("--pcap-calls: there is no capture; give --pcap or --pcap-ring")
	}
	if names := device.KindNames(); d.Kind != "" && !slices.Contains(names, d.Kind) {
		return Usagef("--kind %s: there are %s", d.Kind, strings.Join(names, ", "))
	}
	return nil
}

// NewID returns a connection manager identifier for the kind of device that
// was chosen.
func (d *Device) NewID(ch *rdmacm.EventChannel, ps rdmacm.PortSpace) (*rdmacm.ID, error) {
	kind := rdmacm.Kind(d.Kind)
	if d.Name != "" {
		info, err := FindDevice(d.Name)
		if err != nil {
			return nil, err
		}
		kind = info.Kind
	}
	RuntimeDir()
	id, err := rdmacm.NewID(ch, ps)
	if err == nil {
		id.SetCRC(!d.NoCRC)
	}
	if err != nil || kind == "" || d.Name == "" && kind == id.Kind() {
		// RoCE as the default leaves it to the address
		return id, err
	}
	if err := id.SetKind(kind); err != nil {
		id.Destroy()
		return nil, err
	}
	return id, nil
}

// Open opens the device.
func (d *Device) Open() (*verbs.Context, error) {
	if d.Name != "" {
		if _, err := FindDevice(d.Name); err != nil {
			return nil, err
		}
	}
	name := d.Name
	if name == "" && d.Kind != "" && d.Kind != string(rdmacm.RoCE) {
		name = firstOf(d.Kind)
	}
	RuntimeDir()
	c, err := verbs.Open(name, d.Options()...)
	if err != nil {
		return nil, fmt.Errorf("cannot open device %s: %w", orDefault(name), err)
	}
	return c, nil
}

// firstOf returns the first device of a kind with an active port, else the first
// of all kinds: NewID reports a kind that there is not.
func firstOf(kind string) string {
	all, _ := verbs.Devices()
	for i := range all {
		if string(all[i].Kind) == kind && all[i].PortAttr().State == ib.PortActive {
			return all[i].Name
		}
	}
	return ""
}

func orDefault(name string) string {
	if name == "" {
		return "(first active)"
	}
	return name
}

// FindDevice returns the device of that name, or an error that lists the
// devices there are.
func FindDevice(name string) (verbs.DeviceInfo, error) {
	all, err := verbs.Devices()
	if err != nil {
		return verbs.DeviceInfo{}, err
	}
	var names []string
	for _, d := range all {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	if len(names) == 0 {
		return verbs.DeviceInfo{},
			fmt.Errorf("there is no device: no network interface is up and has an address")
	}
	return verbs.DeviceInfo{},
		fmt.Errorf("no device named %s; there are %s", name, strings.Join(names, ", "))
}

// CheckPort returns an error unless a device has a port.
func CheckPort(device string, port, ports int) error {
	if port < 1 || port > ports {
		return fmt.Errorf("%s has no port %d; its ports are 1 to %d", device, port, ports)
	}
	return nil
}

// AnyGID stands for a GID index the user did not choose.
const AnyGID = -1

// LocalGID returns the GID to use on a port: the one of the index asked for,
// or, for AnyGID, the first that peers on other machines can reach, IPv4 before
// IPv6, link-local ones last.
func LocalGID(c *verbs.Context, port, index int) (ib.GIDEntry, error) {
	if err := CheckPort(c.Info().Name, port, int(c.Query().PhysPortCnt)); err != nil {
		return ib.GIDEntry{}, err
	}
	table, err := c.GIDTable(port)
	if err != nil {
		return ib.GIDEntry{}, fmt.Errorf("port %d of %s: %w", port, c.Info().Name, err)
	}
	return ChooseGID(table, index, fmt.Sprintf("port %d of %s", port, c.Info().Name))
}

// ChooseGID is LocalGID among the entries of a table; where says in errors whose it is.
func ChooseGID(table []ib.GIDEntry, index int, where string) (ib.GIDEntry, error) {
	var best ib.GIDEntry
	bestRank := -1
	var have []string
	for _, e := range table {
		if e.GID.IsZero() {
			continue
		}
		if e.Index == index {
			return e, nil
		}
		if r := gidRank(e.GID); r > bestRank {
			best, bestRank = e, r
		}
		have = append(have, fmt.Sprintf("%d (%s)", e.Index, e.GID.Addr()))
	}
	if len(have) == 0 {
		return ib.GIDEntry{}, fmt.Errorf("%s has no GID: give its interface an IP address", where)
	}
	if index != AnyGID {
		return ib.GIDEntry{}, fmt.Errorf("%s has no GID at index %d; there are %s", where, index,
			strings.Join(have, ", "))
	}
	return best, nil
}

func gidRank(g ib.GID) int {
	switch a := g.Addr(); {
	case a.Is4():
		return 2
	case !a.IsLinkLocalUnicast():
		return 1
	}
	return 0
}

// MTUFlag parses a path MTU in bytes.
func MTUFlag(bytes int) (ib.MTU, error) {
	if m := ib.MTUFor(bytes); m != 0 && m.Bytes() == bytes {
		return m, nil
	}
	return 0, Usagef("path MTU %d: it must be 256, 512, 1024, 2048 or 4096", bytes)
}
