// SPDX-License-Identifier: BSD-2-Clause

package devinfo

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"verbena/ib"
	"verbena/internal/tools/cli"
	"verbena/internal/version"
	"verbena/rdmacm"
	"verbena/verbs"
)

// compVectors is the number of completion vectors of a device: completions
// interrupt no CPU, so there is one.
const compVectors = 1

// DevicesCommand returns "verbena devices".
func DevicesCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the RDMA devices, as ibv_devices does",
		Long: `List the RDMA devices of this machine with their node GUIDs, in the layout of
ibv_devices. Every network interface that is up and has an IP address carries a
device of each kind: roce_ and the interface's name is RoCEv2, iwarp_ (on Linux)
iWARP over TCP, trp_ iWARP over UDP. ntb0, ntb1 and so on are the NTB links that
VERBENA_NTB names, with commas between. Each is one of:

  shm:PATH                    shared memory of all processes with this setting: the
                              first process is node 0, the others are node 1
  shm:s:PATH    shm:c:PATH    the same, as node 0 or as node 1
  s:ADDR:PORT   c:ADDR:PORT   TCP: s waits, c connects; s:ADDR:PORT@PEER accepts only
                              that address or network
  map:0:PATH    map:1:PATH    a file, or the BAR of a PCI device, that both ends map
  pci:0:DEVICE  pci:1:DEVICE  a PCI device such as ivshmem, by its name in sysfs

ADDR= or ADDR+ADDR= before a link gives its port, or both ports, an IP address:
10.99.0.1+10.99.0.2=shm:/tmp/link. secret=FILE: before a TCP link names the file of
a secret that both ends must know. node=N: before all of these places the link's
memory, and the thread that serves it, on NUMA node N.`,
		Example: `  verbena devices
  VERBENA_NTB=shm:/tmp/link verbena devices`,
		Args: cli.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := entries()
			if err != nil {
				return err
			}
			if asJSON {
				return PrintDevicesJSON(cmd.OutOrStdout(), list)
			}
			PrintDevices(cmd.OutOrStdout(), list)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each device")
	return cmd
}

func entries() ([]Entry, error) {
	all, err := verbs.Devices()
	if err != nil {
		return nil, fmt.Errorf("cannot list the devices: %w", err)
	}
	var list []Entry
	for _, d := range all {
		list = append(list, Entry{Name: d.Name, GUID: d.GUID, Kind: string(d.Kind),
			NetDev: d.NetDev})
	}
	return list, nil
}

// options of "verbena devinfo".
type options struct {
	dev     cli.Device
	port    int // 0 is all
	list    bool
	verbose bool
	json    bool
}

// Command returns "verbena devinfo".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "devinfo",
		Short: "Show the attributes of devices, as ibv_devinfo does",
		Long: `Show the attributes of devices and of their ports, in the layout of ibv_devinfo
of rdma-core 44. Without options: every device, briefly.`,
		Example: `  verbena devinfo
  verbena devinfo -v -d roce_lo`,
		Args: cli.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&o.dev.Name, "ib-dev", "d", "", "use device `DEV` (default all devices)")
	fs.IntVarP(&o.port, "ib-port", "i", 0, "use `PORT` of the device (default all ports)")
	fs.BoolVarP(&o.list, "list", "l", false, "print only the names of the devices")
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "print all attributes")
	fs.BoolVar(&o.json, "json", false, "print all attributes, one line of JSON for each device")
	return cmd
}

func (o *options) run(w io.Writer) error {
	list, err := entries()
	if err != nil {
		return err
	}
	if o.list && o.json {
		return PrintDevicesJSON(w, list)
	}
	if o.list {
		PrintNames(w, list)
		return nil
	}
	if o.port < 0 {
		return cli.Usagef("port %d: ports count from 1", o.port)
	}
	if o.dev.Name != "" {
		d, err := cli.FindDevice(o.dev.Name)
		if err != nil {
			return err
		}
		list = []Entry{{Name: d.Name}}
	}
	if len(list) == 0 {
		return fmt.Errorf("there is no device: no network interface is up and has an address")
	}
	for _, e := range list {
		dev := o.dev
		dev.Name = e.Name
		info, err := query(&dev, o.port)
		if err != nil {
			return err
		}
		if !o.json {
			Print(w, info, o.verbose)
		} else if err := PrintJSON(w, info); err != nil {
			return err
		}
	}
	return nil
}

// device answers queries, of an open device or of one that is not.
type device interface {
	Query() ib.DeviceAttr
	QueryPort(port int) (ib.PortAttr, error)
	GIDTable(port int) ([]ib.GIDEntry, error)
}

// query fetches the values to print for one device; port 0 is every port.
func query(dev *cli.Device, port int) (*Info, error) {
	d, err := cli.FindDevice(dev.Name)
	if err != nil {
		return nil, err
	}
	var c device = unopened{d}
	if d.Kind != rdmacm.NTB {
		open, err := dev.Open()
		if err != nil {
			return nil, err
		}
		defer open.Close()
		c = open
	}
	info := &Info{Name: dev.Name, Kind: string(d.Kind), NetDev: d.NetDev, Version: version.String(),
		Attr: c.Query(), CompVectors: compVectors}
	first, last := 1, int(info.Attr.PhysPortCnt)
	if port != 0 {
		if err := cli.CheckPort(dev.Name, port, last); err != nil {
			return nil, err
		}
		first, last = port, port
	}
	for n := first; n <= last; n++ {
		p := Port{Number: n}
		if p.Attr, err = c.QueryPort(n); err != nil {
			return nil, err
		}
		if p.GIDs, err = c.GIDTable(n); err != nil {
			return nil, err
		}
		info.Ports = append(info.Ports, p)
	}
	return info, nil
}
