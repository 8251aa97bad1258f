// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/device"
	"verbena/internal/engine"
)

// DeviceInfo names a device: ibv_device.
type DeviceInfo = device.Info

// Devices lists the devices of this machine: ibv_get_device_list(3). Those of RoCEv2 come first,
// loopback last among them. Those of other kinds on the same interfaces follow.
func Devices() ([]DeviceInfo, error) { return device.All() }

// Context is an open device: ibv_context.
type Context core.Context

// Open opens a device by name. With an empty name it opens the first RoCEv2 device whose port is
// active. All contexts of a process share its sockets, so options hold for the process. The first
// Open sets them. A later one may have none, or some of the same.
//
// Errors: ENODEV if there is no such device; EINVAL if the device cannot inject the faults asked
// for; EBUSY if an option, which the error names, differs from the first Open's, or if another
// process has this end of an NTB link; EADDRINUSE if another user, or the kernel's own RoCE driver,
// holds UDP port 4791.
func Open(name string, opts ...Option) (*Context, error) {
	var given *options
	if len(opts) > 0 {
		given = new(options)
	}
	for _, f := range opts {
		f(given)
	}
	v, err := core.Open(name, given)
	return (*Context)(v), err
}

// Close closes the context and destroys everything created on it. It wakes goroutines that wait
// for an event. When it returns, the device no longer reads or writes the application's memory.
func (c *Context) Close() error { return (*core.Context)(c).Close() }

// Info returns the device's name, interface and GUID.
func (c *Context) Info() DeviceInfo { return (*core.Context)(c).Info() }

// Query returns the device's attributes and limits: ibv_query_device(3).
func (c *Context) Query() ib.DeviceAttr {
	(*core.Context)(c).LogQuery("ibv_query_device", nil)
	return (*core.Context)(c).Query()
}

// Clock returns the time of the device now, as WCTime has it: ibv_query_rt_values_ex(3).
func (c *Context) Clock() ib.WCTime { return (*core.Context)(c).Clock() }

// QueryPort returns the attributes of a port, which count from 1:
// ibv_query_port(3). The violation counters are this process's.
func (c *Context) QueryPort(port int) (ib.PortAttr, error) {
	a, err := (*core.Context)(c).QueryPort(port)
	(*core.Context)(c).LogQuery("ibv_query_port", err)
	return a, err
}

// GIDTable returns the used entries of a port's GID table: ibv_query_gid_table(3). They are the
// network interface's addresses. In one process an address keeps its index while the interface
// has it, and a new address takes the first free index. Other processes may have other indices.
func (c *Context) GIDTable(port int) ([]ib.GIDEntry, error) {
	t, err := (*core.Context)(c).GIDTable(port)
	(*core.Context)(c).LogQuery("ibv_query_gid_table", err)
	return t, err
}

// QueryGID returns one entry of a port's GID table: ibv_query_gid(3). An unused entry is all
// zero.
func (c *Context) QueryGID(port, index int) (ib.GID, error) {
	g, err := (*core.Context)(c).QueryGID(port, index)
	(*core.Context)(c).LogQuery("ibv_query_gid", err)
	return g, err
}

// QueryPKey returns an entry of a port's P_Key table: ibv_query_pkey(3).
func (c *Context) QueryPKey(port, index int) (ib.PKey, error) {
	k, err := (*core.Context)(c).QueryPKey(port, index)
	(*core.Context)(c).LogQuery("ibv_query_pkey", err)
	return k, err
}

// Counter is a named count.
type Counter = engine.Counter

// Counters returns the counts of this process: the device's traffic, retries and NAKs, and each
// kind of packet that reached no queue pair. The latter are those of all devices.
func (c *Context) Counters() []Counter { return (*core.Context)(c).Counters() }

// UseLinks configures the NTB links of this machine, separated by commas. It takes precedence
// over the environment variable VERBENA_NTB. The links are the devices ntb0, ntb1 and so on.
// Each is one end of
//
//	shm:PATH                    shared memory of any number of processes of one user, which
//	                            meet in the directory PATH: the first is node s, the others
//	                            are node c while it lives
//	shm:s:PATH    shm:c:PATH    … with the node given
//	s:ADDR:PORT   c:ADDR:PORT   TCP, to any host; s:ADDR:PORT@PEER accepts connections from
//	                            the address PEER, or from a network such as 192.0.2.0/24, only
//	map:0:PATH    map:1:PATH    a file, or the BAR of a PCI device, that both ends map
//	pci:0:DEVICE  pci:1:DEVICE  BAR 2 of the PCI device at an address, as 0000:00:04.0
//
// The IP address of its port may come before it, or those of both ends. The first is that of the
// end that waits: s, 0, or the first process.
//
//	10.99.0.1+10.99.0.2=shm:/run/user/1000/link
//
// A link of TCP may have a secret before that: a file of at least 16 bytes, which other users
// cannot read, with no colon in its name. Each end proves that it knows the secret. The traffic
// is not encrypted.
//
//	secret=/etc/link.key:s:192.0.2.1:7000@192.0.2.2
//
// The NUMA node of the window's memory, and of the goroutine that works the link, comes before
// all of it:
//
//	node=1:10.99.0.1=c:192.0.2.1:7000
//
// While a link between two processes is down, its port is DOWN and posted work waits until the
// link is up. On a link of shared memory, work for a process that has ended or does not answer
// for 5 s is flushed.
//
// Call UseLinks before Devices and Open. Errors: EINVAL if a link cannot be parsed, is the same
// end as another link, or has the address of another link's port.
func UseLinks(links string) error { return device.ConfigureLinks(links) }
