// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"net/netip"
	"slices"

	"verbena/ib"
	"verbena/internal/fsm"
	"verbena/internal/monotime"
)

// conn is one connection, or one service id resolution.
type conn struct {
	// immutable after creation
	id       ConnID
	active   bool
	path     Path
	tid      uint64
	localID  uint32
	listener *listener // passive only

	state     State
	owned     bool // the application has not destroyed it
	delivered bool // the application has seen an event of it
	remoteID  uint32
	qp        QPParams
	localQPN  ib.QPN
	guid      ib.GUID // the peer's
	probe     uint64  // transaction id of those sent; 0 for none
	waiting   bool    // in the backlog: the application has not answered
	alternate bool    // the REQ brought an alternate path, which the REP declines

	last     MAD               // repeated when the timer or a duplicate asks for it
	interval monotime.Duration // between repetitions
	pause    monotime.Duration // replaces interval between the first repetitions of a REP
	retries  uint8
	maxRetry uint8
	deadline monotime.Time
	timer    int // index in the heap
}

// plainAddr is an address as keys hold it: without zone, IPv4 not mapped.
func plainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// newConn returns an idle connection with a fresh communication id, nil if
// there are too many.
func (a *Agent) newConn(path Path) *conn {
	if len(a.conns) >= a.MaxConns {
		return nil
	}
	a.lastID++
	c := &conn{id: ConnID(a.lastID), path: path, owned: true, timer: noTimer, tid: a.Random()}
	c.localID = a.newCommID()
	a.conns[c.id], a.byLocal[c.localID] = c, c
	return c
}

// newCommID returns an unused communication id of this process's slot, never
// 0: the first free one from a random place on. Ids outnumber connections a
// thousand to one.
func (a *Agent) newCommID() uint32 {
	const mask = 1<<slotShift - 1
	for n := uint32(a.Random()); ; n++ {
		id := uint32(a.Slot)<<slotShift | n&mask
		if id != 0 && a.byLocal[id] == nil {
			return id
		}
	}
}

// setState is the only way a state changes.
func (a *Agent) setState(c *conn, to State) {
	transitions.Check("ibcm", c.state, to)
	if n := count(halfOpenStates.Has(to)) - count(halfOpenStates.Has(c.state)); n != 0 {
		from := plainAddr(c.path.Remote)
		a.halfOpen += n
		a.madeRoom()
		if a.halfOpenOf[from] += n; a.halfOpenOf[from] == 0 {
			delete(a.halfOpenOf, from)
		}
	}
	a.pending += count(!onlyWaiting.Has(to)) - count(!onlyWaiting.Has(c.state))
	if a.Trace != nil {
		a.Trace(c.id, c.state, to)
	}
	c.state = to
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// repeat sends c.last now and again every interval until an answer stops it.
func (a *Agent) repeat(now monotime.Time, c *conn) {
	c.retries = c.maxRetry
	a.send(c.path, &c.last)
	a.timers.set(c, now.Add(c.interval))
}

// enterTimewait waits for packets that may be under way. The peer may use its queue pair for
// another connection before we do with ours, so that only the communication ids stay taken.
func (a *Agent) enterTimewait(now monotime.Time, c *conn) {
	a.setState(c, Timewait)
	a.forgetQPN(c)
	a.timers.set(c, now.Add(wait(c.qp.Timeout, minWaitCode, maxTimewaitCode)))
}

// close ends c. Its ConnID stays until the application destroys it.
func (a *Agent) close(c *conn) {
	if remembers.Has(c.state) {
		i := slices.Index(a.remembered, c) // among the first
		a.remembered = slices.Delete(a.remembered, i, i+1)
	}
	a.setState(c, Closed)
	a.timers.remove(c)
	a.forgetQPN(c)
	if k := c.remoteKey(); a.byRemote[k] == c {
		delete(a.byRemote, k)
	}
	if k := c.sidrKey(); a.bySIDR[k] == c {
		delete(a.bySIDR, k)
	}
	if a.byLocal[c.localID] == c {
		delete(a.byLocal, c.localID)
	}
	if !c.owned {
		delete(a.conns, c.id)
		a.madeRoom()
	}
}

func (c *conn) remoteKey() remoteKey {
	return remoteKey{plainAddr(c.path.Remote), c.guid, c.remoteID}
}

func (c *conn) sidrKey() sidrKey { return sidrKey{plainAddr(c.path.Remote), c.remoteID} }

func (c *conn) remoteQPN() remoteQPN {
	return remoteQPN{plainAddr(c.path.Remote), c.guid, c.qp.DestQPN}
}

func (a *Agent) forgetQPN(c *conn) {
	if k := c.remoteQPN(); a.byQPN[k] == c {
		delete(a.byQPN, k)
	}
}

// lookup finds the connection that a message names by our id and the peer's, and makes sure that
// the message is the peer's.
func (a *Agent) lookup(path Path, ours, theirs uint32) (*conn, bool) {
	c := a.byLocal[ours]
	switch {
	case c == nil:
		a.count[UnknownConn]++
		return nil, false
	case plainAddr(c.path.Remote) != plainAddr(path.Remote):
		a.count[BadSource]++
		return nil, true
	case c.remoteID != 0 && c.remoteID != theirs:
		a.count[BadCommID]++
		return nil, true
	}
	return c, true
}

// get finds the connection of a command.
func (a *Agent) get(id ConnID, op string, states fsm.Set[State]) (*conn, error) {
	c := a.conns[id]
	if c == nil || !c.owned {
		return nil, ErrUnknown
	}
	if !states.Has(c.state) {
		return nil, &StateError{Op: op, State: c.state}
	}
	return c, nil
}

// State returns the state of a connection.
func (a *Agent) State(id ConnID) (State, error) {
	if c := a.conns[id]; c != nil && c.owned {
		return c.state, nil
	}
	return Closed, ErrUnknown
}

// QPParams returns the attributes for the queue pair of a connection: on the active side once
// EventReply is out, on the passive side from EventRequest for RTR and after Accept for RTS as
// well.
func (a *Agent) QPParams(id ConnID) (QPParams, error) {
	c, err := a.get(id, "QPParams",
		^fsm.SetOf(Idle, ReqSent, MRAReqRcvd, SIDRReqSent, SIDRReqRcvd, SIDRAnswered))
	if err != nil {
		return QPParams{}, err
	}
	return c.qp, nil
}

// fill copies private data into a message's array.
func fill(dst []byte, src []byte) bool { return copy(dst, src) == len(src) }
