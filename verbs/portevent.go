package verbs

import (
	"verbena/ib"
	"verbena/internal/osio/link"
)

// portEvents are the asynchronous events of what happens to an interface. One
// that is removed is no more than down: it may be made anew.
var portEvents = map[link.Event]ib.EventType{
	link.Up:    ib.EventPortActive,
	link.Down:  ib.EventPortErr,
	link.Addrs: ib.EventGIDChange,
}

// watchPort begins to raise the port's events, once. Where the system does not
// tell of them there are none.
func (c *Context) watchPort() {
	c.watching.Do(func() {
		if c.ntb != nil {
			c.unwatch = c.ntb.Watch(func(e ib.EventType) {
				a := AsyncEvent{Type: e, Port: 1}
				if e == ib.EventDeviceFatal {
					a.Port = 0
				}
				c.events.put(a)
			})
			return
		}
		stop, err := link.Watch(func(change link.Change) {
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
