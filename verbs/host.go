package verbs

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"syscall"

	"verbena/internal/engine"
)

// host is what all contexts of a process share: the engine with its sockets
// and its slot of the queue pair numbers.
type host struct {
	engine *engine.Engine
	refs   int          // guarded by hostMu
	undo   func() error // ends what the options began
}

var (
	hostMu  sync.Mutex
	theHost *host // guarded by hostMu
)

// acquireHost returns the process's host, starting it for the first context.
func acquireHost(opts []Option) (*host, error) {
	hostMu.Lock()
	defer hostMu.Unlock()
	if theHost != nil {
		if len(opts) > 0 {
			return nil, fail(syscall.EBUSY, "options", "faults and capture hold for the process: give them to the first Open")
		}
		theHost.refs++
		return theHost, nil
	}
	h := &host{refs: 1}
	if err := h.start(opts); err != nil {
		return nil, err
	}
	theHost = h
	return h, nil
}

func (h *host) release() error {
	hostMu.Lock()
	defer hostMu.Unlock()
	if h.refs--; h.refs > 0 {
		return nil
	}
	theHost = nil
	return errors.Join(h.engine.Close(), h.undo())
}

// randomKey is the source of memory keys, which peers must not be able to
// guess.
func randomKey() uint32 {
	var b [4]byte
	rand.Read(b[:]) // never fails: crypto/rand.Read
	return binary.NativeEndian.Uint32(b[:])
}
