// SPDX-License-Identifier: BSD-2-Clause

package core

// watchPort begins to raise the port's events, once. If the system does not report them there are
// none.
func (c *Context) watchPort() {
	c.watching.Do(func() {
		if stop, err := c.back.watch(c); err == nil {
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
