package engine

// OnStranger sets what is called with each message of somebody who is not connected:
// management datagrams, requests, streams that are accepted. Memory that is allocated for
// them comes with no call of the application, and a process that collects its garbage
// by itself is to look for it then. f is called with locks held, and must not block.
func (e *Engine) OnStranger(f func()) { e.onStranger.Store(&f) }

func (e *Engine) stranger() {
	if f := e.onStranger.Load(); f != nil {
		(*f)()
	}
}
