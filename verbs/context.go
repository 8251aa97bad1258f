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

// Devices lists the devices of this machine: ibv_get_device_list(3). Those of
// RoCEv2 are first, loopback last among them; then come those of other kinds on
// the same interfaces.
func Devices() ([]DeviceInfo, error) { return device.All() }

// Context is an open device: ibv_context.
type Context core.Context

// Open opens a device by name, or with an empty name the first one whose port
// is active, which is of RoCEv2. All contexts of a process share its sockets; options that concern
// them hold for the process and must be given by the first Open.
//
// Errors: ENODEV if there is no such device; EINVAL if the faults asked for
// cannot be done to what it sends; EBUSY if another process has our end of a
// link of windows; EADDRINUSE if another user or the
// kernel's own RoCE driver holds UDP port 4791.
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

// Close destroys everything created on the context and closes it. Who waits for
// an event is woken. When it returns nothing reads or writes the application's
// memory any more.
func (c *Context) Close() error { return (*core.Context)(c).Close() }

// Info returns the device's name, interface and GUID.
func (c *Context) Info() DeviceInfo { return (*core.Context)(c).Info() }

// Query returns the device's attributes and limits: ibv_query_device(3).
func (c *Context) Query() ib.DeviceAttr { return (*core.Context)(c).Query() }

// QueryPort returns the attributes of a port, which count from 1:
// ibv_query_port(3). The violation counters are this process's.
func (c *Context) QueryPort(port int) (ib.PortAttr, error) { return (*core.Context)(c).QueryPort(port) }

// GIDTable returns the entries of a port's GID table that are in use:
// ibv_query_gid_table(3). The table is the network interface's addresses. In one
// process an address keeps its index for as long as it lives, and a new one takes
// the first that is free; other processes may count otherwise.
func (c *Context) GIDTable(port int) ([]ib.GIDEntry, error) { return (*core.Context)(c).GIDTable(port) }

// QueryGID returns one entry of a port's GID table, all zero if the entry is
// not in use: ibv_query_gid(3).
func (c *Context) QueryGID(port, index int) (ib.GID, error) {
	return (*core.Context)(c).QueryGID(port, index)
}

// QueryPKey returns an entry of a port's P_Key table: ibv_query_pkey(3).
func (c *Context) QueryPKey(port, index int) (ib.PKey, error) {
	return (*core.Context)(c).QueryPKey(port, index)
}

// Counter is a named count.
type Counter = engine.Counter

// Counters returns what this process counted on the device: traffic, retries,
// NAKs; and, whatever the device, each kind of packet that reached no queue
// pair.
func (c *Context) Counters() []Counter { return (*core.Context)(c).Counters() }

// UseLinks names the links of windows that this machine has, with commas between, in
// place of the environment variable VERBENA_NTB: they are the devices ntb0, ntb1
// and so on. Each is one end of
//
//	shm:PATH                    shared memory of any number of processes of one user, which
//	                            meet in a directory PATH, which stays: the first to come is
//	                            one node (s), all others while it lives are the other one (c)
//	shm:s:PATH    shm:c:PATH    … of the one node (s) or the other (c)
//	s:ADDR:PORT   c:ADDR:PORT   TCP, to any host; s:ADDR:PORT@PEER takes none but one from
//	                            the address PEER, or from a network such as 192.0.2.0/24
//	map:0:PATH    map:1:PATH    a file, or the BAR of a PCI device, that both ends map
//	pci:0:DEVICE  pci:1:DEVICE  BAR 2 of the PCI device at an address, as 0000:00:04.0
//
// and may have before it the IP address of its port, or those of both ends, that
// of the one that waits (s, 0, the first to come) first:
//
//	10.99.0.1+10.99.0.2=shm:/run/user/1000/link
//
// A link of TCP may have before these a file that holds what both ends must know: at
// least 16 bytes, of a file that nobody else may read and that has no colon in its name.
// Each end proves that it knows them; what follows is not encrypted.
//
//	secret=/etc/link.key:s:192.0.2.1:7000@192.0.2.2
//
// and before all the NUMA node that the memory of its window and the goroutine that
// works the link are to be on:
//
//	node=1:10.99.0.1=c:192.0.2.1:7000
//
// While a link to one process is down its port is DOWN, and what is posted waits until it
// is up, however long that takes. In a meeting place what is for a process that is not
// there, or does not answer for 5 s, is flushed.
//
// It comes before Devices and Open. Errors: EINVAL if a link cannot be read, is the same
// end as another one, or has a port with another one's address.
func UseLinks(links string) error { return device.ConfigureLinks(links) }
