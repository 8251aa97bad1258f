// SPDX-License-Identifier: BSD-2-Clause

package rdmanl

import (
	"slices"
	"syscall"

	"verbena/internal/device"
	"verbena/internal/stats"
)

// ServeCommand is the command of verbena-keeper that calls Serve.
const ServeCommand = "netlink"

// Device is a device that the program sees.
type Device struct {
	Name string
	// Info is nil where only the processes that have it open know the device, as an NTB link.
	Info *device.Info
}

// System is everything that answers tell of. The functions are called only for requests that need
// them.
type System struct {
	Devices   func() []Device
	Processes func() []stats.Snapshot
	// Counters returns the values of a device's port by name, in their order.
	Counters func(device string) []stats.Counter
}

// maxRequests bounds the requests of one message.
const maxRequests = 64

// Answer returns the messages that answer those of a datagram, each to be sent by itself.
func Answer(datagram []byte, s *System) (list [][]byte) {
	for range maxRequests {
		h, ok := parseHeader(datagram)
		if !ok {
			return list
		}
		body := datagram[headerBytes:h.length]
		datagram = datagram[min(len(datagram), align(int(h.length))):]
		if h.flags&flagRequest == 0 {
			continue
		}
		answers, err := answerOne(&h, body, s)
		switch {
		case err != 0:
			list = append(list, refusal(&h, err))
		case h.dump():
			list = append(append(list, answers...), done(&h))
		default:
			list = append(list, answers...)
			if h.flags&flagAck != 0 {
				list = append(list, refusal(&h, 0))
			}
		}
	}
	return list
}

// answerOne answers one request. With an error it has no answers.
func answerOne(h *header, body []byte, s *System) ([][]byte, syscall.Errno) {
	if h.typ>>10 != clientNLDev || h.command() == 0 || h.command() >= numCommands {
		return nil, syscall.EINVAL
	}
	attrs, ok := parseAttributes(body)
	if !ok {
		return nil, syscall.EINVAL
	}
	r := request{header: h, attrs: attrs, system: s}
	if t := tableOf(h.command()); t != nil {
		return r.objects(t)
	}
	switch h.command() {
	case cmdGet:
		return r.each(r.device)
	case cmdPortGet:
		return r.each(r.port)
	case cmdResGet:
		return r.each(r.summary)
	case cmdSysGet:
		b := r.begin()
		b.u8(netnsMode, 0) // exclusive: a network namespace has devices of its own
		b.u8(copyOnFork, 1)
		return [][]byte{b.end()}, 0
	case cmdStatGet:
		return r.statistic()
	case cmdStatGetMode:
		return r.one(func(b *answer, _ int, d *Device) { r.counters(b, d, hwCounterIndex) })
	}
	return nil, syscall.EOPNOTSUPP // it would change something
}

// request is one that is being answered.
type request struct {
	*header
	attrs  attributes
	system *System
}

// begin begins an answer of the request's command.
func (r *request) begin() answer {
	flags := uint16(0)
	if r.dump() {
		flags = flagMulti
	}
	return begin(r.header, r.typ, flags)
}

// beginFor begins an answer about a device.
func (r *request) beginFor(index int, d *Device) answer {
	b := r.begin()
	b.u32(devIndex, uint32(index))
	b.text(devName, d.Name)
	return b
}

// asked returns the device that the request names.
func (r *request) asked() (index int, d *Device, err syscall.Errno) {
	n, ok := r.attrs.u32(devIndex)
	if !ok {
		return 0, nil, syscall.EINVAL
	}
	list := r.system.Devices()
	if uint64(n) >= uint64(len(list)) {
		return 0, nil, syscall.ENODEV
	}
	return int(n), &list[n], 0
}

// one answers for the device that the request names, and its port.
func (r *request) one(add func(b *answer, index int, d *Device)) ([][]byte, syscall.Errno) {
	index, d, err := r.asked()
	if err != 0 {
		return nil, err
	}
	if port, ok := r.attrs.u32(portIndex); ok && port != 1 {
		return nil, syscall.EINVAL
	}
	b := r.beginFor(index, d)
	add(&b, index, d)
	return [][]byte{b.end()}, 0
}

// each answers for the device that the request names, or dumps all.
func (r *request) each(add func(b *answer, index int, d *Device)) ([][]byte, syscall.Errno) {
	if _, named := r.attrs.u32(devIndex); named || !r.dump() {
		return r.one(add)
	}
	var list [][]byte
	for i, d := range r.system.Devices() {
		b := r.beginFor(i, &d)
		add(&b, i, &d)
		list = append(list, b.end())
	}
	return list, 0
}

// protocols are the kernel's words.
var protocols = map[device.Kind]string{
	device.KindRoCE: "roce", device.KindIWARP: "iw", device.KindTRP: "iw",
}

func (r *request) device(b *answer, _ int, d *Device) {
	b.u32(portIndex, 1) // the number of ports
	if d.Info == nil {
		return
	}
	a := d.Info.Attr()
	b.u64(capFlags, uint64(a.DeviceCapFlags))
	b.text(fwVersion, a.FWVer)
	b.u64(nodeGUID, uint64(a.NodeGUID))
	b.u64(sysImageGUID, uint64(a.SysImageGUID))
	b.u8(nodeType, uint8(a.NodeType))
	if p := protocols[d.Info.Kind]; p != "" {
		b.text(devProtocol, p)
	}
}

func (r *request) port(b *answer, _ int, d *Device) {
	b.u32(portIndex, 1)
	if d.Info == nil {
		return
	}
	a := d.Info.PortAttr()
	b.u64(capFlags, uint64(a.PortCapFlags))
	b.u8(portState, uint8(a.State))
	b.u8(portPhysState, uint8(a.PhysState))
	b.u32(netdevIndex, uint32(d.Info.Index))
	b.text(netdevName, d.Info.NetDev)
}

func (r *request) summary(b *answer, _ int, d *Device) {
	all := r.processes(d)
	var inside answer
	for _, t := range tables {
		n := uint64(0)
		for i := range all {
			n += uint64(t.count(&all[i]))
		}
		var entry answer
		entry.text(summaryName, t.name)
		entry.u64(summaryCurrent, n)
		inside.nest(summaryEntry, entry)
	}
	b.nest(summary, inside)
}

// statistic answers with the counters of a port. No counter of one queue pair or region exists.
func (r *request) statistic() ([][]byte, syscall.Errno) {
	if _, ok := r.attrs.u32(statRes); !ok {
		if r.dump() {
			return nil, syscall.EINVAL
		}
		return r.one(func(b *answer, _ int, d *Device) { r.counters(b, d, hwCounterValue) })
	}
	if r.dump() {
		return nil, 0
	}
	return r.one(func(b *answer, _ int, _ *Device) {
		b.u32(portIndex, 1)
		b.u32(statMode, 0) // none is bound by itself
	})
}

// counters puts the counters of a port, with their values or their places.
func (r *request) counters(b *answer, d *Device, with attribute) {
	b.u32(portIndex, 1)
	var inside answer
	for i, c := range r.system.Counters(d.Name) {
		var entry answer
		entry.text(hwCounterName, c.Name)
		if with == hwCounterValue {
			entry.u64(with, c.Value)
		} else {
			entry.u32(with, uint32(i))
		}
		if len(*b)+2*attrBytes+len(inside)+len(entry) > maxMessage {
			break
		}
		inside.nest(hwCounter, entry)
	}
	b.nest(hwCounters, inside)
}

// process is a process's part of a device.
type process struct {
	pid uint32
	ids []stats.Identifier
	stats.Device
}

// processes returns the processes that have a device open.
func (r *request) processes(d *Device) (list []process) {
	for _, s := range r.system.Processes() {
		for _, open := range s.Devices {
			if open.Name == d.Name {
				list = append(list, process{uint32(s.PID), slices.DeleteFunc(
					slices.Clone(s.Identifiers), func(id stats.Identifier) bool {
						return id.Device != "" && id.Device != d.Name
					}), open})
			}
		}
	}
	return list
}
