// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"sync"
	"unsafe"

	"verbena/ib"
	"verbena/internal/device"
)

// configured has the text that the NTB devices were configured by.
var configured struct {
	mu   sync.Mutex
	read bool // guarded by mu, as text
	text string
}

// configureLinks makes the NTB links those that VERBENA_NTB names now.
func configureLinks() error {
	configured.mu.Lock()
	defer configured.mu.Unlock()
	text := getenv(device.LinksVariable)
	if configured.read && text == configured.text {
		return nil
	}
	err := device.ConfigureVariable(text)
	if configured.read, configured.text = err == nil, text; err != nil {
		return misconfigured{err}
	}
	return nil
}

// misconfigured marks an error in the settings of the user.
type misconfigured struct{ error }

func (m misconfigured) Unwrap() error { return m.error }

// links lists up to room links, from number first on. The port of an open link is active
// until its peer goes away, also before the peer has come: most programs do not begin at a
// port that is down, and one of the two ends opens first.
func links(out *C.struct_vb_link, first, room C.uint32_t, count *C.uint32_t) error {
	if err := configureLinks(); err != nil {
		return err
	}
	list, n, err := device.Links(int(first), int(room))
	if err != nil {
		return err
	}
	into := unsafe.Slice(out, int(room))
	for i, d := range list {
		l := C.struct_vb_link{}
		contexts.each(func(o *ctxObject) {
			if info := o.verbs.Info(); info.Name == d.Name {
				d = info
				if link := o.verbs.NTB(); link.Up() || !link.WasUp() {
					l.active = 1
				}
			}
		})
		if d.Shared() { // its port reaches itself at least
			l.active = 1
		}
		l.guid = C.uint64_t(d.GUID)
		gids := (*[2]ib.GID)(unsafe.Pointer(&l.gids))
		addrs, _ := d.AddrTable() // does not fail: the addresses of a link are configured
		for k, a := range addrs[:min(len(addrs), len(gids))] {
			gids[k] = ib.GIDFromAddr(a)
		}
		into[i] = l
	}
	*count = C.uint32_t(n)
	return nil
}
