// SPDX-License-Identifier: BSD-2-Clause

package engine

// OnStranger sets a function that is called for each message of an unconnected peer: a management
// datagram, a request, an accepted stream. These take memory without a call of the application, so
// a process that collects its garbage by itself looks for it then. f is called with locks held, and
// must not block.
func (e *Engine) OnStranger(f func()) { e.onStranger.Store(&f) }

// Stranger calls it.
func (e *Engine) Stranger() {
	if f := e.onStranger.Load(); f != nil {
		(*f)()
	}
}
