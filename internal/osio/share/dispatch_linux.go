package share

import (
	"maps"
	"slices"

	"verbena/internal/monotime"
	"verbena/internal/osio/udp"
)

// maxReady bounds the groups reported by one wait; others come with the next.
const maxReady = 16

// poll makes the keeper read slot 0 of a group. m.mu is held.
func (k *keeper) poll(g *group) {
	key := g.addr.WithZone("")
	if k.polled[key] == nil {
		k.polled[key] = g
		k.poller.Add(g.sockets[0], uint64(g.sockets[0].FD()))
	}
}

// serveMADs reads slot 0 of every group and passes on what arrives.
func (k *keeper) serveMADs() {
	defer k.m.gone.Done()
	defer k.poller.Close()
	b := udp.NewRxBatch()
	ready := make([]uint64, maxReady)
	for {
		n, err := k.poller.Wait(monotime.Duration(-1), ready)
		if err != nil {
			p := pause{stop: k.m.stop, next: pauseMax}
			p.wait()
		}
		k.m.mu.Lock()
		over := k.m.role == left
		var from []*udp.Socket
		for _, g := range k.polled {
			if slices.Contains(ready[:n], uint64(g.sockets[0].FD())) {
				from = append(from, g.sockets[0])
			}
		}
		k.m.mu.Unlock()
		if over {
			return
		}
		for _, s := range from {
			s.ReadBatch(b)
			for i := range b.Len() {
				m := b.Message(i)
				for j := range m.Segments() {
					k.dispatch(MAD{Src: m.Src, Dst: m.Dst, TOS: m.TOS, Payload: m.Segment(j)})
				}
			}
		}
	}
}

// dispatch passes a management datagram to the member it is for. What nobody
// listens for, and what is for a slot that nobody owns, stays here: the keeper's
// CM refuses it.
func (k *keeper) dispatch(d MAD) {
	r := k.m.opt.Route(d.Payload, d.Dst)
	var to []*link
	here := false
	k.m.mu.Lock()
	switch r.To {
	case ToKey:
		for _, key := range r.Keys {
			if slot, ok := k.listeners[key]; ok {
				r.Slot = slot
				break
			}
		}
		fallthrough
	case ToSlot:
		if l := k.peers[r.Slot]; l != nil {
			to = append(to, l)
		} else {
			here = true
		}
	case ToAll:
		here = true
		to = slices.Collect(maps.Values(k.peers))
	}
	k.m.mu.Unlock()
	if here {
		k.m.opt.OnMAD(d)
	}
	if len(d.Payload) > maxForwardBytes {
		return
	}
	for _, l := range to {
		l.send(frame{Kind: kindMAD, Src: d.Src, Addr: d.Dst, TOS: d.TOS, Data: d.Payload}, nil)
	}
}
