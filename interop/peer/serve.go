// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

// offerBytes is the size of the private data that tell where the memory is:
// va (64) | rkey (32) | window's rkey (32) | length (32).
const offerBytes = 20

// depth of reads and atomics that are served.
const depth = 4

// serve offers memory to one client until it disconnects, with r also to
// receive one message.
func serve(ctx context.Context, addr string, bytes int, seed uint32, r *receiver) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	events := rdmacm.NewEventChannel()
	defer events.Close()
	listener, request, err := listen(ctx, events, at)
	if err != nil {
		return err
	}
	defer listener.Destroy()
	m, err := accept(request.ID, bytes, seed, r)
	if err != nil {
		return err
	}
	if _, err := await(ctx, events, rdmacm.Established); err != nil {
		return err
	}
	fmt.Println("connected")
	if r != nil {
		if err := r.receive(ctx, request.ID.QP(), m); err != nil {
			return err
		}
	}
	if _, err := await(ctx, events, rdmacm.Disconnected); err != nil {
		return err
	}
	fmt.Println("disconnected")
	m.report()
	return request.ID.Disconnect()
}

// listen waits for one request.
func listen(ctx context.Context, events *rdmacm.EventChannel,
	at netip.AddrPort) (listener *rdmacm.ID, request *rdmacm.Event, err error) {
	if listener, err = rdmacm.NewID(events, rdmacm.TCP); err != nil {
		return nil, nil, err
	}
	if *kind != "" {
		if err = listener.SetKind(rdmacm.Kind(*kind)); err != nil {
			return nil, nil, err
		}
	}
	listener.SetCRC(!*noCRC)
	if err = listener.BindAddr(at); err != nil {
		return nil, nil, err
	}
	if err = listener.Listen(1); err != nil {
		return nil, nil, err
	}
	fmt.Println("listening")
	request, err = await(ctx, events, rdmacm.ConnectRequest)
	return listener, request, err
}

// refuse rejects one request, and says why.
func refuse(ctx context.Context, addr string) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	events := rdmacm.NewEventChannel()
	defer events.Close()
	listener, request, err := listen(ctx, events, at)
	if err != nil {
		return err
	}
	defer listener.Destroy()
	if err := request.ID.Reject([]byte("not today")); err != nil {
		return err
	}
	fmt.Println("refused")
	return request.ID.Destroy()
}

// accept takes a request with a queue pair whose domain has the memory.
func accept(id *rdmacm.ID, bytes int, seed uint32, r *receiver) (m memory, err error) {
	pd, err := id.Verbs().AllocPD()
	if err != nil {
		return m, err
	}
	cq, err := id.Verbs().CreateCQ(depth, nil)
	if err != nil {
		return m, err
	}
	if m, err = newMemory(pd, bytes, seed); err != nil {
		return m, err
	}
	err = id.CreateQP(pd, &verbs.QPInitAttr{
		Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq,
		Cap: ib.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		return m, err
	}
	var window ib.RKey
	if r != nil {
		if window, err = r.prepare(pd, cq); err != nil {
			return m, err
		}
		if r.ready {
			if err = r.post(id.QP(), m); err != nil {
				return m, err
			}
		}
	}
	offer := binary.BigEndian.AppendUint64(make([]byte, 0, offerBytes), m.mr.Addr())
	offer = binary.BigEndian.AppendUint32(offer, uint32(m.mr.RKey()))
	offer = binary.BigEndian.AppendUint32(offer, uint32(window))
	offer = binary.BigEndian.AppendUint32(offer, uint32(bytes))
	return m, id.Accept(&rdmacm.ConnParam{
		PrivateData: offer, ResponderResources: depth, InitiatorDepth: depth, RNRRetryCount: 7,
	})
}

// await returns the next event, which must be of a type.
func await(ctx context.Context, events *rdmacm.EventChannel,
	want rdmacm.EventType) (*rdmacm.Event, error) {
	event, err := events.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting for %v: %w", want, err)
	}
	if event.Type != want {
		return nil, fmt.Errorf("%v instead of %v: %w", event.Type, want, event.Err)
	}
	return event, nil
}
