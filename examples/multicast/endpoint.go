// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"context"
	"errors"
	"net/netip"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

const (
	headerSize = 40 // before each received datagram: the GRH
	slotSize   = headerSize + 1024
	slots      = 16
	sent       = slots // the ID of sends; those of receives are their slots
)

// endpoint is a datagram queue pair with a channel that announces its completions.
type endpoint struct {
	id      *rdmacm.ID
	pd      *verbs.PD
	channel *verbs.CompChannel
	cq      *verbs.CQ
	memory  *verbs.MR
}

func newEndpoint(local netip.Addr) (e *endpoint, err error) {
	e = &endpoint{}
	if e.id, err = rdmacm.NewID(rdmacm.NewEventChannel(), rdmacm.UDP); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if err := e.id.BindAddr(netip.AddrPortFrom(local, 0)); err != nil {
		return nil, err
	}
	dev := e.id.Verbs()
	if dev == nil {
		return nil, errors.New("bind to an address of one interface")
	}
	if e.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if e.channel, err = dev.CreateCompChannel(); err != nil {
		return nil, err
	}
	if e.cq, err = dev.CreateCQ(2*slots, e.channel); err != nil {
		return nil, err
	}
	if e.memory, err = e.pd.RegMR(make([]byte, slots*slotSize), ib.AccessLocalWrite); err != nil {
		return nil, err
	}
	err = e.id.CreateQP(e.pd, &verbs.QPInitAttr{
		Type: ib.QPTypeUD, SendCQ: e.cq, RecvCQ: e.cq, SignalAll: true,
		Cap: ib.QPCap{MaxSendWR: slots, MaxSendSGE: 1, MaxRecvWR: slots, MaxRecvSGE: 1,
			MaxInlineData: 256},
	})
	if err != nil {
		return nil, err
	}
	for i := range uint64(slots) {
		if err := e.post(i); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// close destroys the objects, the last first, as each uses those before it.
func (e *endpoint) close() error {
	var errs []error
	if e.id.QP() != nil {
		errs = append(errs, e.id.DestroyQP())
	}
	if e.memory != nil {
		errs = append(errs, e.memory.Dereg())
	}
	if e.cq != nil {
		errs = append(errs, e.cq.Destroy())
	}
	if e.channel != nil {
		errs = append(errs, e.channel.Close())
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Dealloc())
	}
	return errors.Join(append(errs, e.id.Destroy())...)
}

// join joins a group and returns the parameters for sending to it.
func (e *endpoint) join(ctx context.Context, group netip.Addr,
	how rdmacm.JoinFlag) (rdmacm.UDParam, error) {
	if err := e.id.JoinMulticast(group, how); err != nil {
		return rdmacm.UDParam{}, err
	}
	ev, err := e.id.Channel().Get(ctx)
	if err != nil {
		return rdmacm.UDParam{}, err
	}
	return ev.UD, ev.Err
}

func (e *endpoint) post(slot uint64) error {
	_, err := e.id.QP().PostRecv(verbs.RecvWR{ID: slot,
		SGList: []ib.SGE{e.memory.SGE(int(slot)*slotSize, slotSize)}})
	return err
}

func (e *endpoint) send(ah *verbs.AH, to ib.QPN, text []byte) error {
	_, err := e.id.QP().PostSend(verbs.SendWR{
		ID: sent, Opcode: ib.WRSend, Flags: ib.SendInline, Inline: text, AH: ah, RemoteQPN: to,
		RemoteQKey: rdmacm.UDQKey,
	})
	return err
}

// receive calls handle for each datagram until ctx ends or handle fails.
func (e *endpoint) receive(ctx context.Context,
	handle func(wc ib.WC, grh, text []byte) error) error {
	var wc [1]ib.WC
	for {
		if err := e.cq.RequestNotify(false); err != nil {
			return err
		}
		for {
			n, err := e.cq.Poll(wc[:])
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			if err := wc[0].Err(); err != nil {
				return err
			}
			if wc[0].WRID == sent {
				continue
			}
			b := e.memory.Bytes()[wc[0].WRID*slotSize:]
			if err := handle(wc[0], b[:headerSize], b[headerSize:wc[0].ByteLen]); err != nil {
				return err
			}
			if err := e.post(wc[0].WRID); err != nil {
				return err
			}
		}
		if _, err := e.channel.Wait(ctx); err != nil {
			return err
		}
	}
}
