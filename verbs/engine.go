package verbs

import (
	"verbena/internal/backdoor"
	"verbena/internal/engine"
)

func init() {
	backdoor.Engine = func(c any) *engine.Engine { return c.(*Context).eng }
}
