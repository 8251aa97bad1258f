// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"verbena/ib"
	"verbena/internal/device"
)

// links are what the devices of kind ntb were configured by.
var links struct {
	mu   sync.Mutex
	read bool // guarded by mu, as text
	text string
}

// configureLinks has the links of windows be those that the user names now:
// VERBENA_NTB.
func configureLinks() error {
	links.mu.Lock()
	defer links.mu.Unlock()
	text := getenv(device.LinksVariable)
	if links.read && text == links.text {
		return nil
	}
	err := device.ConfigureLinks(text)
	if links.read, links.text = err == nil, text; err != nil {
		return misconfigured{fmt.Errorf("%s: %w", device.LinksVariable, err)}
	}
	return nil
}

// misconfigured marks an error in what the user has configured.
type misconfigured struct{ error }

func (m misconfigured) Unwrap() error { return m.error }

// vb_links lists links, those from the number first on. Of one that is open which end is ours is known for
// certain. Its port is active from then on, until the peer goes away: most
// programs do not begin at a port that is down, and one of the two is first.
//
//export vb_links
func vb_links(out *C.struct_vb_link, first, room C.uint, count *C.uint) C.int {
	ensureStack()
	err := configureLinks()
	if err != nil {
		return C.int(errnoOf("ibv_get_device_list", err))
	}
	list, n, err := device.Links(int(first), int(room))
	if err != nil {
		return C.int(errnoOf("ibv_get_device_list", err))
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
		if d.Shared() { // its port leads to itself at least
			l.active = 1
		}
		l.guid = C.uint64_t(d.GUID)
		gids := (*[2]ib.GID)(unsafe.Pointer(&l.gids))
		addrs, _ := d.AddrTable() // those of a link are configured: it does not fail
		for k, a := range addrs[:min(len(addrs), len(gids))] {
			gids[k] = ib.GIDFromAddr(a)
		}
		into[i] = l
	}
	*count = C.uint(n)
	return 0
}
