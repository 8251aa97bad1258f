// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Peek is a ReadBatch of one message that stays in the socket until Take. A
// process that dies in between leaves it to the next reader of the socket. There
// must be one reader only: Take would take another one's message.
func (s *Socket) Peek(b *RxBatch) (int, error) {
	b.n = 0
	r, ok := s.io.(*raw)
	switch {
	case s.closed.Load():
		return 0, net.ErrClosed
	case !ok:
		return 0, errors.ErrUnsupported
	}
	n, err := r.readWith(b, 1, unix.MSG_PEEK)
	b.n = n
	return n, err
}

// Take removes the message that Peek has shown.
func (s *Socket) Take(b *RxBatch) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	m := b.Message(0)
	s.count.received(1, m.Segments(), len(m.Data))
	_, _, err := unix.Recvfrom(s.FD(), nil, unix.MSG_DONTWAIT)
	return os.NewSyscallError("recvfrom", err)
}
