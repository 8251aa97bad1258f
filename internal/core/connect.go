// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
)

// ConnectStream gives an iWARP queue pair, which is in INIT, a stream on which everything is agreed;
// it goes to RTS. On error it stays in INIT and the stream is reset.
func (q *QP) ConnectStream(s *engine.Stream, p engine.Connected) error {
	q.modifyMu.Lock()
	defer q.modifyMu.Unlock()
	err := q.hasStreams()
	if err == nil && q.gone.Load() {
		err = invalid("QP", "was destroyed")
	}
	if err != nil {
		s.Abort()
		return err
	}
	return q.conn.Connect(s, p, func(cur ib.QPState) error {
		if cur != ib.QPInit {
			return invalid("QP", "is in %v: it is connected from INIT", cur)
		}
		return nil
	})
}

// DisconnectStream closes the stream of an iWARP queue pair behind all that is posted.
// Connected.OnClose tells when both ends are done.
func (q *QP) DisconnectStream() error {
	if err := q.hasStreams(); err != nil {
		return err
	}
	q.conn.Disconnect()
	return nil
}

// TRPConn returns the connection of a TRP queue pair, which goes to RTS with its association.
func (q *QP) TRPConn() (*engine.Conn, error) {
	if k := q.ctx.info.Kind; k != device.KindTRP {
		return nil, fail(syscall.EOPNOTSUPP, "QP", "is of a %v device: only those of TRP have an association", k)
	}
	return q.conn, nil
}

func (q *QP) hasStreams() error {
	if k := q.ctx.info.Kind; k != device.KindIWARP {
		return fail(syscall.EOPNOTSUPP, "QP", "is of a %v device: only those of iWARP have a stream", k)
	}
	return nil
}
