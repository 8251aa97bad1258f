//go:build !amd64

package window

import "sync/atomic"

func put4(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
func put8(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
