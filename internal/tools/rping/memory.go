// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"fmt"

	"verbena/ib"
	"verbena/verbs"
)

// keeper owns a registered buffer and hands out keys to it.
type keeper interface {
	bytes() []byte
	// sge is n bytes of the buffer for our own work requests.
	sge(n int) ib.SGE
	// open returns the Info to give to the peer, with a key that grants access. It also returns the
	// work requests that must go before it is sent. The key given out before is void once they are
	// executed; it may be void already if the peer invalidates.
	open(access ib.Access, peerInvalidates bool) (Info, []verbs.SendWR, error)
	// shut returns the work requests that void the key right away.
	shut() []verbs.SendWR
	close() error
}

const allAccess = ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite

func (s *session) newKeeper(buf []byte) (keeper, error) {
	switch memoryMode(s.o.mem) {
	case memFastReg:
		mr, err := s.pd.AllocMR(1)
		if err != nil {
			return nil, fmt.Errorf("cannot allocate a region for fast registration: %w", err)
		}
		return &fastKeeper{buf: buf, mr: mr, key: mr.RKey()}, nil
	case memWindow:
		return s.newWindowKeeper(buf)
	}
	mr, err := s.pd.RegMR(buf, allAccess)
	if err != nil {
		return nil, fmt.Errorf("cannot register %d bytes: %w", len(buf), err)
	}
	return &plainKeeper{mr}, nil
}

// plainKeeper registers once, with one key for ever.
type plainKeeper struct{ mr *verbs.MR }

func (k *plainKeeper) bytes() []byte    { return k.mr.Bytes() }
func (k *plainKeeper) sge(n int) ib.SGE { return k.mr.SGE(0, n) }
func (k *plainKeeper) close() error     { return k.mr.Dereg() }

func (k *plainKeeper) open(ib.Access, bool) (Info, []verbs.SendWR, error) {
	return Info{Addr: k.mr.Addr(), RKey: k.mr.RKey(), Size: uint32(k.mr.Length())}, nil, nil
}

func (k *plainKeeper) shut() []verbs.SendWR { return nil }

// fastIOVA is the address that peers see of fast-registered memory.
const fastIOVA = 0x1000

// fastKeeper registers by work request, with a new key for each opening.
type fastKeeper struct {
	buf  []byte
	mr   *verbs.MR
	key  ib.RKey
	used bool // key is or was valid
}

func (k *fastKeeper) bytes() []byte { return k.buf }

func (k *fastKeeper) sge(n int) ib.SGE {
	return ib.SGE{Addr: fastIOVA, Length: uint32(n), LKey: ib.LKey(k.key)}
}

func (k *fastKeeper) open(access ib.Access, peerInvalidates bool) (Info, []verbs.SendWR, error) {
	var wrs []verbs.SendWR
	if k.used && !peerInvalidates {
		wrs = k.shut()
	}
	if _, err := k.mr.Map([][]byte{k.buf}, fastIOVA); err != nil {
		return Info{}, nil, err
	}
	k.key, k.used = k.key.Next(), true
	wrs = append(wrs, verbs.SendWR{Opcode: ib.WRRegMR,
		Reg: &verbs.RegWR{MR: k.mr, Key: k.key, Access: access}})
	return Info{Addr: fastIOVA, RKey: k.key, Size: uint32(len(k.buf))}, wrs, nil
}

// shut is fenced, so that a READ into the memory comes first.
func (k *fastKeeper) shut() []verbs.SendWR {
	if !k.used {
		return nil
	}
	k.used = false
	return []verbs.SendWR{{Opcode: ib.WRLocalInv, Flags: ib.SendFence, InvalidateRKey: k.key}}
}

func (k *fastKeeper) close() error { return k.mr.Dereg() }

// windowKeeper registers once and opens a type 2 window for peers.
type windowKeeper struct {
	mr   *verbs.MR
	mw   *verbs.MW
	key  ib.RKey
	used bool
}

func (s *session) newWindowKeeper(buf []byte) (keeper, error) {
	mr, err := s.pd.RegMR(buf, ib.AccessLocalWrite|ib.AccessMWBind)
	if err != nil {
		return nil, fmt.Errorf("cannot register %d bytes: %w", len(buf), err)
	}
	mw, err := s.pd.AllocMW(ib.MWType2)
	if err != nil {
		mr.Dereg()
		return nil, fmt.Errorf("cannot allocate a memory window: %w", err)
	}
	return &windowKeeper{mr: mr, mw: mw, key: mw.RKey()}, nil
}

func (k *windowKeeper) bytes() []byte    { return k.mr.Bytes() }
func (k *windowKeeper) sge(n int) ib.SGE { return k.mr.SGE(0, n) }

func (k *windowKeeper) open(access ib.Access, peerInvalidates bool) (Info, []verbs.SendWR, error) {
	var wrs []verbs.SendWR
	if k.used && !peerInvalidates {
		wrs = k.shut()
	}
	k.key, k.used = k.key.Next(), true
	bind := &verbs.BindWR{MW: k.mw, MR: k.mr, Addr: k.mr.Addr(), Length: k.mr.Length(),
		Access: access &^ ib.AccessLocalWrite, RKey: k.key}
	wrs = append(wrs, verbs.SendWR{Opcode: ib.WRBindMW, Bind: bind})
	return Info{Addr: k.mr.Addr(), RKey: k.key, Size: uint32(k.mr.Length())}, wrs, nil
}

func (k *windowKeeper) shut() []verbs.SendWR {
	if !k.used {
		return nil
	}
	k.used = false
	return []verbs.SendWR{{Opcode: ib.WRLocalInv, Flags: ib.SendFence, InvalidateRKey: k.key}}
}

func (k *windowKeeper) close() error {
	err := k.mw.Dealloc()
	if e := k.mr.Dereg(); err == nil {
		err = e
	}
	return err
}
