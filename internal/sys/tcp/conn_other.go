// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package tcp

import (
	"errors"
	"net/netip"

	"verbena/internal/congestion"
)

// Vectors is the memory of one system call's scatter list.
type Vectors struct{}

// Descriptors returns how many descriptors the process may have.
func Descriptors() int { return usualDescriptors }

// Set finds the descriptors, among many, that have something to do.
type Set struct{}

func Dial(local, remote netip.AddrPort) (*Conn, error)       { return nil, errors.ErrUnsupported }
func Listen(local netip.AddrPort, _ int) (*Listener, error)  { return nil, errors.ErrUnsupported }
func NewSet() (*Set, error)                                  { return nil, errors.ErrUnsupported }
func (c *Conn) Finish() error                                { return errors.ErrUnsupported }
func (c *Conn) MSS() (int, error)                            { return 0, errors.ErrUnsupported }
func (c *Conn) CloseWrite() error                            { return errors.ErrUnsupported }
func (c *Conn) Close() error                                 { return errors.ErrUnsupported }
func (c *Conn) Abort() error                                 { return errors.ErrUnsupported }
func (c *Conn) Readv(*Vectors, [][]byte) (int, error)        { return 0, errors.ErrUnsupported }
func (c *Conn) Writev(*Vectors, [][]byte) (int, error)       { return 0, errors.ErrUnsupported }
func (l *Listener) Accept() (*Conn, error)                   { return nil, errors.ErrUnsupported }
func (l *Listener) Close() error                             { return errors.ErrUnsupported }
func (s *Set) FD() int                                       { return -1 }
func (s *Set) Add(fd int, id uint64, want Interest) error    { return errors.ErrUnsupported }
func (s *Set) Change(fd int, id uint64, want Interest) error { return errors.ErrUnsupported }
func (s *Set) Remove(fd int) error                           { return errors.ErrUnsupported }
func (s *Set) Ready() ([]Event, error)                       { return nil, errors.ErrUnsupported }
func (s *Set) Close() error                                  { return errors.ErrUnsupported }

// Path is not known here.
func (c *Conn) Path() (p congestion.Path, err error) { return p, errors.ErrUnsupported }
