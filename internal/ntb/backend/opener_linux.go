// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/window"
	"verbena/internal/sys/numa"
)

// An Opener opens the links of an endpoint that joins two processes, one after the other: of any
// but shared memory, which has a Place. Its window is
// one from link to link: an application may have memory there.
//
// Open is for one thread; others may call Pause and Cancel meanwhile.
type Opener struct {
	e           Endpoint
	windowBytes uint64
	side        int
	own         *backing
	mapped      *mapped
	l           *Listener // of one that serves
	secret      []byte    // TCP: the peer must know it; nil: no secret
	cancel      fd
}

// NewOpener takes our end of a link, so that no other process of this host does.
// windowBytes is the size of our window, but for a file, where half of it is.
//
// The memory of a file, or of a device, has its own node, not the endpoint's.
//
// Errors: ErrInUse, ErrConfig, numa.ErrNode, the system's.
func NewOpener(e Endpoint, windowBytes uint64) (*Opener, error) {
	o := &Opener{e: e, windowBytes: windowBytes, side: e.Side, cancel: none}
	if err := o.take(); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

func (o *Opener) take() error {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	o.cancel = hold(event)
	if o.e.OnNode {
		if err := numa.Check(o.e.Node); err != nil {
			return err
		}
	}
	switch o.e.Kind {
	case Mapped:
		o.mapped, err = openFile(o.e.Path, o.e.Side)
		return err
	case PCI:
		o.mapped, err = openPCI(pciDevices+o.e.Path, o.e.Side)
		return err
	case Shm:
		return fmt.Errorf("%w: %v is a shared-memory hub", ErrConfig, o.e)
	}
	if err := checkBytes(o.windowBytes); err != nil {
		return err
	}
	if !o.e.Serve {
		o.side = 1
	}
	if o.secret, err = readSecret(o.e.Secret); err != nil {
		return err
	}
	if o.own, err = newBacking(o.windowBytes, false); err != nil {
		return err
	}
	if o.e.OnNode {
		if err := numa.Place(o.own.b, o.e.Node); err != nil {
			return err
		}
	}
	if o.side == 1 {
		return nil
	}
	o.l, err = listenTCP(o.e.Addr, o.own.w.Len(), admission{o.e.From, o.secret},
		func(f fd, peerBytes uint64) (Link, error) {
			return newTCP(f, o.own, peerBytes), nil
		})
	if err == nil {
		o.l.cancel = o.cancel
	}
	return err
}

// SideOf returns the side that a process would have that came to an endpoint now.
func SideOf(e Endpoint) int {
	switch {
	case e.Kind == Mapped, e.Kind == PCI:
		return e.Side
	case e.Kind == Shm:
		return freeSide(e)
	case e.Serve:
		return 0
	}
	return 1
}

// Side returns which end ours is: 0 waits for the peer, 1 goes to it.
func (o *Opener) Side() int { return o.side }

// Own returns the window that the peer writes, the same for all links.
func (o *Opener) Own() *window.Window {
	if o.mapped != nil {
		return o.mapped.own
	}
	return o.own.w
}

// Inherited reports whether our window is memory that may have been another process's. The peer may
// still take us for that one.
func (o *Opener) Inherited() bool { return o.mapped != nil }

// Open opens a link, if the peer comes, or is there, within d. Only one is open
// at a time.
//
// Errors: ErrTimeout, ErrLost, ErrProtocol, ErrSecret, after which another try may do
// better; others will stay, ErrGone for ever.
func (o *Opener) Open(d time.Duration) (Link, error) {
	switch {
	case o.mapped != nil && o.mapped.gone.Load():
		return nil, ErrGone
	case o.mapped != nil:
		return sharedLink{o.mapped}, nil
	case o.l != nil:
		return o.l.Accept(d)
	}
	f, peerBytes, err := dialTCP(o.e.Addr, o.own.w.Len(), o.secret, o.cancel, d)
	if err != nil {
		return nil, err
	}
	return newTCP(f, o.own, peerBytes), nil
}

// sharedLink is a mapped link whose memory is the Opener's.
type sharedLink struct{ *mapped }

func (sharedLink) Close() error { return nil }

// Pause waits for d, or until Cancel.
func (o *Opener) Pause(d time.Duration) { _ = await(o.cancel, unix.POLLIN, none, d) }

// Cancel ends a Pause, and an Open that waits for a peer to come or to answer.
func (o *Opener) Cancel() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(int(o.cancel), one[:])
}

// Close gives our end up. The link must have been closed; nobody may use Own any
// more.
func (o *Opener) Close() error {
	var err error
	if o.l != nil {
		err = o.l.Close()
	}
	if o.mapped != nil {
		o.mapped.Close()
	}
	if o.own != nil {
		o.own.close()
	}
	o.cancel.close()
	return err
}
