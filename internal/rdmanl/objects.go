// SPDX-License-Identifier: BSD-2-Clause

package rdmanl

import (
	"strconv"
	"syscall"

	"verbena/internal/stats"
)

// table is a kind of objects.
type table struct {
	name    string // in the summary
	command command
	nest    attribute // of the list; its entries have the next number
	number  attribute // by which a request names one object
	ported  bool      // objects are of a port, or not yet
	count   func(*process) int
	// entries returns the attributes of each object of a process, without its process
	entries func(*process) []answer
}

// tables are in the order of the kernel's summary.
var tables = []*table{
	{"pd", cmdResPDGet, resPD, resPDN, false,
		func(p *process) int { return len(p.PDs) }, pds},
	{"cq", cmdResCQGet, resCQ, resCQN, false,
		func(p *process) int { return len(p.CQs) }, cqs},
	{"qp", cmdResQPGet, resQP, resLQPN, true,
		func(p *process) int { return len(p.QueuePairs) }, qps},
	{"cm_id", cmdResCMIDGet, resCMID, resCMIDN, true,
		func(p *process) int { return len(p.ids) }, cmIDs},
	{"mr", cmdResMRGet, resMR, resMRN, false,
		func(p *process) int { return p.Regions }, mrs},
	{"ctx", cmdResCtxGet, resCtx, resCtxN, false,
		func(p *process) int { return len(p.Contexts) }, contexts},
	{"srq", cmdResSRQGet, resSRQ, resSRQN, false,
		func(p *process) int { return len(p.SRQs) }, srqs},
}

func tableOf(c command) *table {
	for _, t := range tables {
		if t.command == c {
			return t
		}
	}
	return nil
}

// objects answers with the objects of a device: a dump with all, in as many messages as they need,
// another request with the one that it names.
func (r *request) objects(t *table) ([][]byte, syscall.Errno) {
	index, d, err := r.asked()
	if err != 0 {
		return nil, err
	}
	port, ported := r.attrs.u32(portIndex)
	number, named := r.attrs.u32(t.number)
	if !r.dump() && !named {
		return nil, syscall.EINVAL
	}
	var list [][]byte
	var inside answer
	flush := func() {
		b := r.beginFor(index, d)
		b.nest(t.nest, inside)
		list, inside = append(list, b.end()), nil
	}
	room := maxMessage - len(r.beginFor(index, d)) - 2*attrBytes
	for _, p := range r.processes(d) {
		for _, e := range t.entries(&p) {
			e.u32(resPID, p.pid)
			a, _ := parseAttributes(e)
			if ported && t.ported && !a.has(portIndex, port) {
				continue
			}
			if !r.dump() {
				if !a.has(t.number, number) {
					continue
				}
				b := append(r.beginFor(index, d), e...)
				return [][]byte{b.end()}, 0
			}
			if len(inside)+len(e) > room {
				flush()
			}
			inside.nest(t.nest+1, e)
		}
	}
	if !r.dump() {
		return nil, syscall.ENOENT
	}
	if len(inside) > 0 {
		flush()
	}
	return list, 0
}

func (a attributes) has(t attribute, v uint32) bool {
	n, ok := a.u32(t)
	return ok && n == v
}

// qpTypes, qpStates and migStates are the kernel's numbers.
var (
	migStates = map[string]uint8{"": 0, "REARM": 1, "ARMED": 2}
	qpTypes   = map[string]uint8{"RC": 2, "UC": 3, "UD": 4, "RAW_PACKET": 8, "XRC_SEND": 9,
		"XRC_RECV": 10}
	qpStates = map[string]uint8{"RESET": 0, "INIT": 1, "RTR": 2, "RTS": 3, "SQD": 4, "SQE": 5,
		"ERR": 6}
)

func qps(p *process) (list []answer) {
	for _, q := range p.QueuePairs {
		var e answer
		e.u32(resLQPN, q.QPN)
		switch q.Type {
		case "RC", "UC":
			e.u32(resRQPN, q.PeerQPN)
			e.u32(resRQPSN, q.RQPSN)
			fallthrough
		case "XRC_SEND", "XRC_RECV":
			e.u8(resMigState, migStates[q.Migration])
		}
		e.u32(resSQPSN, q.SQPSN)
		if t, ok := qpTypes[q.Type]; ok {
			e.u8(resType, t)
		}
		if s, ok := qpStates[q.State]; ok {
			e.u8(resState, s)
			if s != qpStates["RESET"] {
				e.u32(portIndex, 1)
			}
		}
		e.u32(resPDN, q.PDN)
		list = append(list, e)
	}
	return list
}

func pds(p *process) (list []answer) {
	for _, d := range p.PDs {
		var e answer
		e.u64(resUseCount, uint64(d.Users))
		e.u32(resPDN, d.PDN)
		e.u32(resCtxN, d.Context)
		list = append(list, e)
	}
	return list
}

func cqs(p *process) (list []answer) {
	for _, q := range p.CQs {
		var e answer
		e.u32(resCQE, uint32(q.Depth))
		e.u64(resUseCount, uint64(q.Users))
		e.u32(resCQN, q.CQN)
		e.u32(resCtxN, q.Context)
		list = append(list, e)
	}
	return list
}

func mrs(p *process) (list []answer) {
	for _, m := range p.MRs {
		var e answer
		e.u64(resMRLen, m.Length)
		e.u32(resMRN, m.MRN)
		e.u32(resPDN, m.PDN)
		list = append(list, e)
	}
	return list
}

func contexts(p *process) (list []answer) {
	for _, n := range p.Contexts {
		var e answer
		e.u32(resCtxN, n)
		list = append(list, e)
	}
	return list
}

func srqs(p *process) (list []answer) {
	for _, s := range p.SRQs {
		var e answer
		e.u32(resSRQN, s.SRQN)
		kind := uint8(0) // IB_SRQT_BASIC
		switch {
		case s.XRC:
			kind = 1
		case s.TM:
			kind = 2
		}
		e.u8(resType, kind)
		e.u32(resPDN, s.PDN)
		e.nest(resQP, takers(p, s.SRQN)) // rdma shows no queue without it
		list = append(list, e)
	}
	return list
}

// maxTakers bounds the decimal numbers, with commas, of the queue pairs that are named with a
// shared receive queue. The tool rdma has room for as many letters, and cuts a number that does not
// fit.
const maxTakers = 255

// takers returns the queue pairs that take receives from a shared receive queue.
func takers(p *process, srqn uint32) (list answer) {
	letters := 0
	for _, q := range p.QueuePairs {
		if q.SRQN != srqn {
			continue
		}
		if letters > 0 {
			letters++ // the comma
		}
		letters += len(strconv.FormatUint(uint64(q.QPN), 10))
		if letters > maxTakers {
			break
		}
		var e answer
		e.u32(resLQPN, q.QPN)
		list.nest(resQP+1, e)
	}
	return list
}

// portSpaces are enum rdma_ucm_port_space; cmStates has the kernel's numbers for states of package
// rdmacm.
var (
	portSpaces = map[string]uint32{"IPoIB": 0x0002, "TCP": 0x0106, "UDP": 0x0111, "IB": 0x013f}
	cmStates   = map[string]uint8{"idle": 0, "bound": 7, "resolving": 1, "address resolved": 2,
		"route resolved": 4, "listening": 8, "connecting": 5, "replied": 5, "requested": 5,
		"accepting": 5, "established": 5, "disconnected": 6, "destroyed": 10}
)

func cmIDs(p *process) (list []answer) {
	for i, id := range p.ids {
		var e answer
		e.u32(resCMIDN, uint32(i))
		if id.Device != "" {
			e.u32(portIndex, 1)
		}
		if id.QPN != 0 {
			e.u32(resLQPN, id.QPN)
		}
		e.u32(resPS, portSpaces[id.PortSpace])
		e.u8(resType, typeOfID(&id))
		e.u8(resState, cmStates[id.State])
		if id.Local.IsValid() {
			e.addr(resSrcAddr, id.Local)
		}
		if id.Peer.IsValid() {
			e.addr(resDstAddr, id.Peer)
		}
		list = append(list, e)
	}
	return list
}

// typeOfID returns the type of an identifier's queue pairs.
func typeOfID(id *stats.Identifier) uint8 {
	if id.PortSpace == "UDP" || id.PortSpace == "IPoIB" {
		return qpTypes["UD"]
	}
	return qpTypes["RC"]
}
