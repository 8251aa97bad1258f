// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"context"
	"fmt"

	"verbena/ib"
	"verbena/verbs"
)

// pingServer is the server's side of the ping loop; it ends when the client
// disconnects.
func (s *session) pingServer(ctx context.Context) error {
	for {
		from, err := s.awaitInfo(ctx)
		if err != nil {
			return err
		}
		if err := s.readFrom(ctx, from); err != nil {
			return err
		}
		if s.o.verbose {
			fmt.Fprintf(s.out, "server ping data: %s\n", text(s.data.bytes()))
		}
		if err := s.goAhead(from); err != nil {
			return err
		}
		to, err := s.awaitInfo(ctx)
		if err != nil {
			return err
		}
		if err := s.writeTo(ctx, to); err != nil {
			return err
		}
		if err := s.goAhead(to); err != nil {
			return err
		}
	}
}

// readFrom READs the ping data. With --read-inv the key of the memory it goes
// to is voided right behind it.
func (s *session) readFrom(ctx context.Context, from Info) error {
	if int(from.Size) > len(s.data.bytes()) {
		return fmt.Errorf("the client offers %d bytes, more than rping's %d", from.Size,
			len(s.data.bytes()))
	}
	wrs, err := s.ready(ib.AccessLocalWrite)
	if err != nil {
		return err
	}
	wrs = append(wrs, verbs.SendWR{
		Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, SGList: []ib.SGE{s.data.sge(int(from.Size))},
		RemoteAddr: from.Addr, RKey: from.RKey,
	})
	if s.o.readInv {
		wrs = append(wrs, s.data.shut()...)
	}
	if err := s.post(wrs...); err != nil {
		return err
	}
	return s.await(ctx, ib.WCRDMARead)
}

// writeTo WRITEs the ping data back, up to its zero byte as rping does.
func (s *session) writeTo(ctx context.Context, to Info) error {
	wrs, err := s.ready(ib.AccessLocalWrite)
	if err != nil {
		return err
	}
	n := min(len(text(s.data.bytes()))+1, len(s.data.bytes()), int(to.Size))
	wrs = append(wrs, verbs.SendWR{
		Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{s.data.sge(n)},
		RemoteAddr: to.Addr, RKey: to.RKey,
	})
	if err := s.post(wrs...); err != nil {
		return err
	}
	return s.await(ctx, ib.WCRDMAWrite)
}

// ready registers the server's buffer anew where that is by work request.
func (s *session) ready(access ib.Access) ([]verbs.SendWR, error) {
	if memoryMode(s.o.mem) != memFastReg {
		return nil, nil
	}
	_, wrs, err := s.data.open(access, false)
	return wrs, err
}

// goAhead makes the client continue, and voids its key if asked to.
func (s *session) goAhead(used Info) error {
	var wr verbs.SendWR
	if s.o.serverInv {
		wr.Opcode, wr.InvalidateRKey = ib.WRSendWithInv, used.RKey
	}
	return s.send(Info{}, wr)
}
