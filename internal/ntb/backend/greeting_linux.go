// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/entropy"
	wire "verbena/internal/wire/ntb"
)

// greetingTime bounds the time that a peer may take to greet.
const greetingTime = 5 * time.Second

// greeting is a TCP stream whose ends announce their windows and, with a secret, prove that they
// know it:
//
//	both    Greeting, nonce
//	c       the proof that it knows the secret
//	s       likewise, once that one is right
//
// A proof is of both nonces and both windows, and of the end that gives it, so nothing that was
// heard before helps a stranger. The data after it is neither encrypted nor authenticated.
type greeting struct {
	f      fd
	from   netip.Addr // of one that came
	end    time.Time
	serve  bool
	secret []byte // nil: none

	out        []byte // not taken by the socket
	in         []byte // bytes so far, at most as many as are to come
	ours       wire.Greeting
	theirs     wire.Greeting
	ourNonce   [nonceBytes]byte
	theirNonce [nonceBytes]byte
}

const (
	nonceBytes = 32
	proofBytes = sha256.Size
)

func newGreeting(f fd, windowBytes uint64, serve bool, secret []byte) (*greeting, error) {
	if err := unix.SetsockoptInt(int(f), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	g := &greeting{f: f, end: time.Now().Add(greetingTime), serve: serve, secret: secret}
	g.ours = wire.Greeting{WindowBytes: windowBytes, Secret: secret != nil}
	g.out = g.ours.Append(nil)
	if secret != nil {
		for i := 0; i < nonceBytes; i += 8 {
			binary.NativeEndian.PutUint64(g.ourNonce[i:], entropy.Uint64())
		}
		g.out = append(g.out, g.ourNonce[:]...)
	}
	return g, nil
}

// step goes on as far as it can without waiting, and reports whether all is said.
//
// Errors: ErrLost, ErrProtocol, ErrSecret.
func (g *greeting) step() (done bool, err error) {
	for {
		if err := g.flush(); err != nil {
			return false, err
		}
		want := g.wanted()
		if len(g.in) == want {
			return len(g.out) == 0, nil
		}
		b := make([]byte, want-len(g.in)) // no more: the rest is the link's
		n, err := read(g.f, b)
		if err != nil || n == 0 {
			return false, err
		}
		g.in = append(g.in, b[:n]...)
		if err := g.take(); err != nil {
			return false, err
		}
	}
}

// wanted returns the number of bytes in the peer's whole greeting, as far as is known.
func (g *greeting) wanted() int {
	switch {
	case g.secret == nil || len(g.in) < wire.GreetingBytes:
		return wire.GreetingBytes
	case len(g.in) < wire.GreetingBytes+nonceBytes:
		return wire.GreetingBytes + nonceBytes
	}
	return wire.GreetingBytes + nonceBytes + proofBytes
}

// take handles a part of it that is whole.
func (g *greeting) take() error {
	switch len(g.in) {
	case wire.GreetingBytes:
		var ok bool
		if g.theirs, _, ok = wire.ParseGreeting(g.in); !ok ||
			checkBytes(g.theirs.WindowBytes) != nil {
			return ErrProtocol
		}
		if g.theirs.Secret != g.ours.Secret {
			return ErrSecret
		}
	case wire.GreetingBytes + nonceBytes:
		copy(g.theirNonce[:], g.in[wire.GreetingBytes:])
		if !g.serve {
			g.out = g.appendProof(g.out, false)
		}
	case wire.GreetingBytes + nonceBytes + proofBytes:
		if !hmac.Equal(g.in[wire.GreetingBytes+nonceBytes:], g.appendProof(nil, !g.serve)) {
			return ErrSecret
		}
		if g.serve {
			g.out = g.appendProof(g.out, true)
		}
	}
	return nil
}

// appendProof appends an end's proof that it knows the secret.
func (g *greeting) appendProof(b []byte, served bool) []byte {
	server, client := &g.ours, &g.theirs
	serverNonce, clientNonce := &g.ourNonce, &g.theirNonce
	if !g.serve {
		server, client, serverNonce, clientNonce = client, server, clientNonce, serverNonce
	}
	m := hmac.New(sha256.New, g.secret)
	role := byte('c')
	if served {
		role = 's'
	}
	m.Write([]byte{role})
	m.Write(serverNonce[:])
	m.Write(clientNonce[:])
	m.Write(client.Append(server.Append(nil)))
	return m.Sum(b)
}

func (g *greeting) flush() error {
	for len(g.out) > 0 {
		n, err := unix.SendmsgN(int(g.f), g.out, nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return ErrLost
		default:
			g.out = g.out[n:]
		}
	}
	return nil
}

// events returns the poll events that the greeting waits for.
func (g *greeting) events() int16 {
	if len(g.out) > 0 {
		return unix.POLLIN | unix.POLLOUT
	}
	return unix.POLLIN
}

// run greets for as long as stop is not readable.
func (g *greeting) run(stop fd) error {
	for {
		done, err := g.step()
		if done || err != nil {
			return err
		}
		if err := await(g.f, g.events(), stop, time.Until(g.end)); err != nil {
			return err
		}
	}
}
