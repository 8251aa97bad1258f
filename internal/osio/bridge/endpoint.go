package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Kind is a way to join windows.
type Kind uint8

// Kinds.
const (
	TCP Kind = iota
	Shm
	Mapped
)

// An Endpoint is one end of a link, as a configuration names it.
type Endpoint struct {
	Kind  Kind
	Serve bool           // TCP, Shm: wait for the peer, instead of going to it
	Addr  netip.AddrPort // TCP
	Path  string         // Shm: of the socket; Mapped: of the file
	Side  int            // Mapped: 0 or 1
}

// ParseEndpoints reads a configuration, links with commas between:
//
//	s:ADDR:PORT   c:ADDR:PORT   TCP, as the original has it; IPv6 addresses in brackets
//	shm:s:PATH    shm:c:PATH    shared memory, by a Unix socket
//	map:0:PATH    map:1:PATH    a file or the BAR of a PCI device
//
// Errors: ErrConfig.
func ParseEndpoints(s string) (list []Endpoint, err error) {
	for _, part := range strings.Split(s, ",") {
		e, ok := parseEndpoint(part)
		if !ok {
			return nil, fmt.Errorf("%w: %q is not s:ADDR:PORT, c:ADDR:PORT, shm:s:PATH, shm:c:PATH, map:0:PATH or map:1:PATH", ErrConfig, part)
		}
		list = append(list, e)
	}
	return list, nil
}

func parseEndpoint(s string) (e Endpoint, ok bool) {
	first, rest, _ := strings.Cut(s, ":")
	switch first {
	case "s", "c":
		addr, err := netip.ParseAddrPort(rest)
		return Endpoint{Serve: first == "s", Addr: addr}, err == nil && addr.Port() != 0
	case "shm":
		role, path, _ := strings.Cut(rest, ":")
		return Endpoint{Kind: Shm, Serve: role == "s", Path: path}, (role == "s" || role == "c") && path != ""
	case "map":
		side, path, _ := strings.Cut(rest, ":")
		e = Endpoint{Kind: Mapped, Path: path}
		if side == "1" {
			e.Side = 1
		}
		return e, (side == "0" || side == "1") && path != ""
	}
	return Endpoint{}, false
}

// An Opener opens the links of an endpoint, one after the other.
type Opener struct {
	e           Endpoint
	windowBytes uint64
	l           *Listener // of one that serves, from the first Open on
}

// NewOpener returns an opener. windowBytes is the size of our window, but for a
// file, where half of it is.
func NewOpener(e Endpoint, windowBytes uint64) *Opener {
	return &Opener{e: e, windowBytes: windowBytes}
}

// Open opens a link, if the peer comes, or is there, within d.
//
// Errors: ErrTimeout, ErrLost, ErrProtocol, after which another try may do
// better; others will stay.
func (o *Opener) Open(d time.Duration) (l Link, err error) {
	switch e := o.e; {
	case e.Kind == Mapped:
		return Map(e.Path, e.Side)
	case !e.Serve && e.Kind == Shm:
		return DialShm(e.Path, o.windowBytes, d)
	case !e.Serve:
		return DialTCP(e.Addr, o.windowBytes, d)
	case o.l != nil:
	case e.Kind == Shm:
		o.l, err = ListenShm(e.Path, o.windowBytes)
	default:
		o.l, err = ListenTCP(e.Addr, o.windowBytes)
	}
	if err != nil {
		return nil, err
	}
	return o.l.Accept(d)
}

// Close stops listening. Links that are open stay so.
func (o *Opener) Close() error {
	if o.l == nil {
		return nil
	}
	return o.l.Close()
}

// Temporary reports whether an error of Open may be gone at the next try.
func Temporary(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, ErrLost) || errors.Is(err, ErrProtocol)
}
