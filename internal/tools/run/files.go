// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"fmt"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/stats"
	"verbena/internal/transport"
	"verbena/verbs"
)

// As the kernel has it: the numbers of the nodes, the versions of their interfaces, and
// rdma_ucm's limit.
const (
	verbsMajor      = 231
	verbsFirstMinor = 192
	verbsABI        = 6
	madABI          = 5
	maxBacklog      = 1024
)

// lifespanMS bounds the age of counters, as in the kernel. The preload library asks for new ones
// after that time.
const lifespanMS = 10

// tree holds the contents of a directory, by path: a file's content, a symbolic
// link's target after linkTo, or, for a path that ends in a slash, nothing.
type tree map[string]string

const (
	// linkTo begins no file of ours.
	linkTo = "-> "
	// counterFile stands for the content of a file that counts; package stats writes it.
	counterFile = "+"
)

// nodeName returns the name of a device's node in /dev/infiniband. Its number
// stays when other interfaces come and go.
func nodeName(d *verbs.DeviceInfo) string { return fmt.Sprintf("uverbs%d", d.Number()) }

// nodeTypes and gidTypes are the kernel's words.
var (
	nodeTypes = map[ib.NodeType]string{ib.NodeCA: "CA", ib.NodeRNIC: "RNIC"}
	gidTypes  = map[ib.GIDType]string{ib.GIDTypeIB: "IB/RoCE v1", ib.GIDTypeRoCEv2: "RoCE v2"}
)

// driverFiles returns the files that the kernel driver of such devices would show below /dev, /sys
// and /proc. Those that no program is known to read are missing.
//
// Layout: Documentation/ABI/stable/sysfs-class-infiniband of the kernel.
func driverFiles(devices []verbs.DeviceInfo) (tree, error) {
	t := tree{
		"dev/infiniband/":                        "",
		"sys/class/infiniband/":                  "",
		"sys/class/infiniband_verbs/abi_version": fmt.Sprintln(verbsABI),
		"sys/class/infiniband_mad/abi_version":   fmt.Sprintln(madABI),
		"proc/sys/net/rdma_ucm/max_backlog":      fmt.Sprintln(maxBacklog),
	}
	ports := 0
	for i := range devices {
		if err := t.addDevice(&devices[i]); err != nil {
			return nil, err
		}
		if devices[i].Kind == device.KindRoCE {
			t.addMADs(&devices[i], ports)
			t.addCounters(&devices[i], stats.PortFiles, stats.PortCounterFiles())
			ports++
		}
	}
	return t, nil
}

// addMADs adds the node by which programs send management datagrams, which iWARP and NTB have not.
// libibumad looks for it among the first 64 numbers.
func (t tree) addMADs(d *verbs.DeviceInfo, number int) {
	node := fmt.Sprintf("umad%d", number)
	t["dev/infiniband/"+node] = ""
	mad := "sys/class/infiniband_mad/" + node + "/"
	t[mad+"ibdev"] = fmt.Sprintln(d.Name)
	t[mad+"port"] = "1\n"
	t[mad+"dev"] = fmt.Sprintf("%d:%d\n", verbsMajor, number)
}

// addCounters adds files of a port that count.
func (t tree) addCounters(d *verbs.DeviceInfo, dir string, names []string) {
	for _, name := range names {
		t["sys/class/infiniband/"+d.Name+"/"+dir+"/"+name] = counterFile
	}
}

func (t tree) addDevice(d *verbs.DeviceInfo) error {
	gids, err := d.GIDs()
	if err != nil {
		return err
	}
	attr, port := d.Attr(), d.PortAttr()
	node := nodeName(d)
	dev := "sys/class/infiniband/" + d.Name + "/"

	t["dev/infiniband/"+node] = ""
	t[dev+"node_type"] = fmt.Sprintf("%d: %s\n", attr.NodeType, nodeTypes[attr.NodeType])
	t[dev+"node_guid"] = fmt.Sprintln(attr.NodeGUID)
	t[dev+"sys_image_guid"] = fmt.Sprintln(attr.SysImageGUID)
	t[dev+"node_desc"] = fmt.Sprintln(d.Name)
	t[dev+"fw_ver"] = fmt.Sprintln(attr.FWVer)
	// Not every driver has these two, but node_exporter 1.5 shows no device without them.
	t[dev+"board_id"] = fmt.Sprintln(d.Kind)
	t[dev+"hca_type"] = "verbena\n"

	// A device without a bus is as near to one NUMA node as to another.
	t[dev+"device/numa_node"] = "-1\n"
	t[dev+"device/net/"+d.NetDev] = linkTo + "/sys/class/net/" + d.NetDev
	t[dev+"device/infiniband/"+d.Name+"/"] = ""
	t[dev+"device/infiniband_verbs/"+node+"/"] = ""

	p := dev + "ports/1/"
	t[p+"state"] = "1: DOWN\n"
	t[p+"phys_state"] = "3: Disabled\n"
	if port.State == ib.PortActive {
		t[p+"state"], t[p+"phys_state"] = "4: ACTIVE\n", "5: LinkUp\n"
	}
	t[p+"rate"] = "2.5 Gb/sec (1X SDR)\n"
	t[p+"link_layer"] = "Ethernet\n"
	t[p+"cap_mask"] = fmt.Sprintf("0x%08x\n", uint32(port.PortCapFlags))
	t[p+"lid"], t[p+"sm_lid"] = "0x0\n", "0x0\n"
	t[p+"lid_mask_count"], t[p+"sm_sl"] = "0\n", "0\n"
	t[p+"pkeys/0"] = "0xffff\n"
	for _, g := range gids {
		t[p+fmt.Sprintf("gids/%d", g.Index)] = fmt.Sprintln(g.GID)
		t[p+fmt.Sprintf("gid_attrs/types/%d", g.Index)] = fmt.Sprintln(gidTypes[g.Type])
		t[p+fmt.Sprintf("gid_attrs/ndevs/%d", g.Index)] = fmt.Sprintln(d.NetDev)
	}
	t.addCounters(d, stats.HWFiles, stats.HWCounterFiles(transport.Of(d.Kind).CounterNames(),
		d.Kind == device.KindRoCE))
	t[dev+stats.HWFiles+"/"+stats.Lifespan] = fmt.Sprintln(lifespanMS)

	v := "sys/class/infiniband_verbs/" + node + "/"
	t[v+"ibdev"] = fmt.Sprintln(d.Name)
	t[v+"dev"] = fmt.Sprintf("%d:%d\n", verbsMajor, verbsFirstMinor+d.Number())
	t[v+"abi_version"] = "1\n"
	return nil
}
