package verbs

import "verbena/internal/engine"

// Engine returns what the device runs on. It is for the packages of this module
// that need more than verbs offer: rdmacm needs QP1.
func (c *Context) Engine() *engine.Engine { return c.eng }
