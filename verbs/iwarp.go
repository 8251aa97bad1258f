// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
)

// connectStream is backdoor.ConnectStream.
func (q *QP) connectStream(s *engine.Stream, p engine.Connected) error {
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

// disconnectStream is backdoor.DisconnectStream.
func (q *QP) disconnectStream() error {
	if err := q.hasStreams(); err != nil {
		return err
	}
	q.conn.Disconnect()
	return nil
}

// trpConn is backdoor.TRPConn.
func (q *QP) trpConn() (*engine.Conn, error) {
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
