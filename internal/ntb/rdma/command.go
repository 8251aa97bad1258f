// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	wire "verbena/internal/wire/ntb"
)

// commander is our end of the command ring.
type commander struct {
	waiting []command // to be sent
	sent    []command // under way, oldest first; at most commandCap
	posted  wire.Index
	done    wire.Index
	bell    uint32

	looked monotime.Time // when overdue was asked last,
	since  monotime.Time // and since when done has its value
	was    wire.Index
}

// commandLimit bounds the time for which a peer whose heart beats may leave our commands
// unanswered, as in the original.
const commandLimit = 5 * monotime.Second

// overdue reports whether a command has waited for too long. It is asked with each heartbeat: a
// node that was not asked for a long time was stopped, maybe with the peer.
func (c *commander) overdue(now monotime.Time) bool {
	if len(c.sent) == 0 || c.done != c.was || now.Sub(c.looked) > commandLimit/2 {
		c.was, c.since = c.done, now
	}
	c.looked = now
	return now.Sub(c.since) >= commandLimit
}

// A command is about a queue pair's far half, a region, the rights of a far half, or our addresses.
type command struct {
	op     wire.Op
	far    *far
	closes *QP // QP_GRANT: that takes back its grant
	region *region
	body   []byte
}

func (n *Node) command(c command) { n.cmds.waiting = append(n.cmds.waiting, c) }

// server takes the peer's commands and answers them.
type server struct {
	taken    wire.Index
	answers  []byte // responses not yet written, from index answered on
	answered wire.Index
	bell     uint32
}

// pollCommands writes responses and commands.
func (n *Node) pollCommands(b *channel.Batch) bool {
	s, c := &n.server, &n.cmds
	if s.answered != s.taken {
		for ; s.answered != s.taken; s.answered++ {
			a := s.answers[:wire.ResponseBytes]
			b.Append(n.peer.ResponsesAt+
				wire.ResponseBytes*uint64(s.answered.Slot(n.peer.CommandCap)),
				func(b []byte) []byte {
					return append(b, a...)
				})
			s.answers = s.answers[wire.ResponseBytes:]
		}
		s.answers = nil
		b.Word4(n.peer.DoneAt, uint32(s.answered))
		n.ring(b, bellResponses, &s.bell)
		n.ch.Ring(b)
		return true
	}
	if len(c.waiting) == 0 || len(c.sent) == commandCap {
		return false
	}
	for len(c.waiting) > 0 && len(c.sent) < commandCap {
		x := c.waiting[0]
		c.waiting = c.waiting[:copy(c.waiting, c.waiting[1:])]
		at := n.prep.CommandsAt + wire.CommandBytes*uint64(c.posted.Slot(commandCap))
		b.Append(at, func(b []byte) []byte {
			end := len(b) + wire.CommandBytes
			b = wire.CommandHeader{Op: x.op, Index: c.posted}.Append(b)
			b = append(b, x.body...)
			for len(b) < end {
				b = append(b, 0)
			}
			return b
		})
		c.posted++
		c.sent = append(c.sent, x)
	}
	b.Word4(n.prep.PostedAt, uint32(c.posted))
	n.ring(b, bellCommands, &c.bell)
	n.ch.Ring(b)
	return true
}

// takeResponses takes the responses that have come.
func (n *Node) takeResponses(now monotime.Time) {
	c, w := &n.cmds, n.ch.Own()
	end := wire.Index(w.Load4(n.own.res.DoneAt))
	if end.Since(c.done) > uint32(len(c.sent)) {
		n.violated(now)
		return
	}
	for c.done != end {
		var room [wire.ResponseBytes]byte
		w.CopyOut(n.own.res.ResponsesAt+wire.ResponseBytes*uint64(c.done.Slot(commandCap)), room[:])
		h, body, _ := wire.ParseResponseHeader(room[:])
		x := c.sent[0]
		if h.Index != c.done || h.Op != x.op {
			n.violated(now)
			return
		}
		c.sent = c.sent[:copy(c.sent, c.sent[1:])]
		c.done++
		if h.Status != wire.CommandDone {
			n.Count[CommandFails]++
		}
		n.handleResponse(now, &x, h.Status, body)
	}
}

// violated ends a session in which the peer has written something impossible.
func (n *Node) violated(now monotime.Time) {
	n.Count[BadIndex]++
	n.ch.Reset(now)
}

func (n *Node) handleResponse(now monotime.Time, x *command, s wire.CommandStatus, body []byte) {
	switch x.op {
	case wire.OpQPCreate:
		x.far.created(now, s, body)
	case wire.OpQPModify:
		x.far.connected(now, s)
	case wire.OpQPDelete:
		x.far.deleted(now)
	case wire.OpMRDelete:
		n.forgetRegion(x.region)
	case wire.OpQPGrant:
		if x.closes != nil {
			x.closes.closing--
		}
	}
}

// takeCommands takes the peer's commands and executes them.
func (n *Node) takeCommands(now monotime.Time) {
	s, w := &n.server, n.ch.Own()
	end := wire.Index(w.Load4(n.own.postedAt))
	if end.Since(s.answered) > n.peer.CommandCap || end.Since(s.taken) > n.peer.CommandCap {
		n.violated(now)
		return
	}
	for s.taken != end {
		var room [wire.CommandBytes]byte // a copy: the peer may change the original
		w.CopyOut(n.own.commandsAt+wire.CommandBytes*uint64(s.taken.Slot(n.peer.CommandCap)),
			room[:])
		h, body, _ := wire.ParseCommandHeader(room[:])
		if h.Index != s.taken {
			n.violated(now)
			return
		}
		var answer [wire.ResponseBytes - wire.ResponseHeaderBytes]byte
		status := n.execute(now, h.Op, body, answer[:0])
		switch status {
		case wire.CommandMalformed, wire.CommandUnknown, wire.CommandExists:
			n.Count[BadCommand]++
		}
		s.answers = wire.ResponseHeader{Op: h.Op, Index: h.Index, Status: status}.Append(s.answers)
		s.answers = append(s.answers, answer[:]...)
		s.taken++
	}
}

// execute carries out a command of the peer. Its results beside the status are appended to answer,
// which has room for them.
func (n *Node) execute(now monotime.Time, op wire.Op, body, answer []byte) wire.CommandStatus {
	switch op {
	case wire.OpQPCreate:
		if c, _, ok := wire.ParseQPCreate(body); ok {
			return n.createRQP(&c, answer)
		}
	case wire.OpQPModify:
		if c, _, ok := wire.ParseQPModify(body); ok {
			return n.modifyRQP(&c)
		}
	case wire.OpQPDelete:
		if c, _, ok := wire.ParseQPDelete(body); ok {
			return n.deleteRQP(c.QPN)
		}
	case wire.OpMRCreate:
		if c, _, ok := wire.ParseMRCreate(body); ok {
			return n.createRMR(&c)
		}
	case wire.OpMRAppend:
		if c, _, ok := wire.ParseMRAppend(body); ok {
			return n.appendRMR(&c)
		}
	case wire.OpMRDelete:
		if c, _, ok := wire.ParseMRDelete(body); ok {
			return n.deleteRMR(c.Key)
		}
	case wire.OpQPGrant:
		if c, _, ok := wire.ParseQPGrant(body); ok {
			return n.takeGrant(&c)
		}
	case wire.OpAddresses:
		if c, _, ok := wire.ParseAddresses(body); ok {
			return n.takeAddrs(&c)
		}
	default:
		return wire.CommandUnknown
	}
	return wire.CommandMalformed
}
