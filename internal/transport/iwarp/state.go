// SPDX-License-Identifier: BSD-2-Clause

package iwarp

// streamState is the state of a queue pair's stream.
type streamState uint8

const (
	// noStream is before Connect, and again once the socket was given up. Nothing is read
	// or written.
	noStream streamState = iota
	// streamOpen is entered by Connect. Both sides send.
	streamOpen
	// streamPeerEnded is entered when the peer's side ends in order. Nothing more is read; the
	// machine's output is still written.
	streamPeerEnded
	// streamWeEnded is entered when the machine wants to shut down and all is written: our side is
	// shut. The peer's data is still read.
	streamWeEnded
	// streamBothEnded is entered from either of the two by the other side's end. The next
	// flush that finds nothing to write leaves it for streamClosing.
	streamBothEnded
	// streamClosing is entered when both sides have ended, or by the queue pair's end. The
	// socket is closed as soon as no thread reads it, and noStream follows.
	streamClosing
	// streamResetting is entered by an error, or by the queue pair's end with work under
	// way. As streamClosing, but the socket is reset.
	streamResetting
)

// used reports whether output is written, if there is any.
func (s streamState) used() bool { return s >= streamOpen && s <= streamBothEnded }

// readable reports whether there may be bytes to read.
func (s streamState) readable() bool { return s == streamOpen || s == streamWeEnded }

// peerEnded reports whether the peer's side has ended.
func (s streamState) peerEnded() bool { return s == streamPeerEnded || s == streamBothEnded }

// weEnded reports whether our side has ended.
func (s streamState) weEnded() bool { return s == streamWeEnded || s == streamBothEnded }

// leaving reports whether the socket waits to be given up.
func (s streamState) leaving() bool { return s >= streamClosing }

// afterPeersEnd returns the state that follows when the peer's side ends. A socket that is
// being given up stays so.
func (s streamState) afterPeersEnd() streamState {
	switch s {
	case streamOpen:
		return streamPeerEnded
	case streamWeEnded:
		return streamBothEnded
	}
	return s
}

// afterOurEnd returns the state that follows when our side ends.
func (s streamState) afterOurEnd() streamState {
	if s == streamPeerEnded {
		return streamBothEnded
	}
	return streamWeEnded
}

// outputState is the activity of the pumping thread.
type outputState uint8

const (
	// outReady is between two writes: the next flush writes.
	outReady outputState = iota
	// outWriting is while a thread writes to the socket, without the lock.
	outWriting
	// outBlocked is entered when the socket has no room, and left when it has some: until
	// then nothing is written.
	outBlocked
)

// ended is the way in which the peer's side of a stream has ended.
type ended uint8

const (
	notEnded ended = iota
	inOrder
	lost
)
