// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/transport/ntb"
)

// portEvents are the asynchronous events of what happens to an interface. One
// that is removed is no more than down: it may be made anew.
var portEvents = map[engine.InterfaceEvent]ib.EventType{
	engine.InterfaceUp:    ib.EventPortActive,
	engine.InterfaceDown:  ib.EventPortErr,
	engine.InterfaceAddrs: ib.EventGIDChange,
}

// watchPort begins to raise the port's events, once. Where the system does not
// tell of them there are none.
func (c *Context) watchPort() {
	c.watching.Do(func() {
		if c.ntb != nil {
			c.unwatch = c.ntb.Watch(c.linkChanged)
			return
		}
		stop, err := engine.WatchInterfaces(func(change engine.InterfaceChange) {
			if e, ok := portEvents[change.Event]; ok && change.NetDev == c.info.NetDev {
				c.events.put(AsyncEvent{Type: e, Port: 1})
			}
		})
		if err == nil {
			c.unwatch = stop
		}
	})
}

// unwatchPort ends them, also if they never began.
func (c *Context) unwatchPort() {
	c.watching.Do(func() {})
	if c.unwatch != nil {
		c.unwatch()
	}
}

// linkChanged raises the port's event. The port of a shared-memory hub is active for as long as it
// is open, whatever happens to the link to one process.
func (c *Context) linkChanged(change ntb.LinkChange) {
	switch {
	case change.Fatal:
		c.events.put(AsyncEvent{Type: ib.EventDeviceFatal})
	case c.ntb.Shared():
	case change.Up:
		c.events.put(AsyncEvent{Type: ib.EventPortActive, Port: 1})
	default:
		c.events.put(AsyncEvent{Type: ib.EventPortErr, Port: 1})
	}
}
