// SPDX-License-Identifier: BSD-2-Clause

package xrcfile

import "os"

// Options say which domain a process enters, and where.
type Options struct {
	// Path returns the prefix of the names of a slot's sockets. Its directory is the user's alone.
	Path func(slot int) string
	Slot int // of this process
	File *os.File
	// Device has domains of its own.
	Device string
	// Create enters a domain that does not exist: without it Enter returns fs.ErrNotExist.
	// Exclusive with one that does: fs.ErrExist.
	Create, Exclusive bool
	// Accept returns the handler of a Link that another process has made.
	Accept func(*Link) Handler
}

// Handler handles what comes by a Link. The goroutine of the Place calls it, one call at a time,
// so it does not block. Place.Go runs code that does.
type Handler interface {
	Message(b []byte)
	// End is the last call, also after Link.Close.
	End()
}

// MaxMessage bounds a message.
const MaxMessage = 8 << 10
