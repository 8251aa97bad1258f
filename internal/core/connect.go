// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"syscall"

	"verbena/ib"
	"verbena/internal/transport/iwarp"
	"verbena/internal/transport/trp"
)

// ConnectStream gives an iWARP queue pair, which is in INIT, a stream on which everything is
// agreed; it goes to RTS. On error it stays in INIT and the stream is reset.
func (q *QP) ConnectStream(s *iwarp.Stream, p iwarp.Connected) (err error) {
	defer func() { q.ctx.logCall("connect stream", err, "qp", q) }()
	q.modifyMu.Lock()
	defer q.modifyMu.Unlock()
	c, err := q.iwarpConn()
	if err == nil && q.gone.Load() {
		err = invalid("QP", "was destroyed")
	}
	if err != nil {
		s.Abort()
		return err
	}
	return c.Connect(s, p, func(cur ib.QPState) error {
		if cur != ib.QPInit {
			return invalid("QP", "is in %v: it is connected from INIT", cur)
		}
		return nil
	})
}

// DisconnectStream closes the stream of an iWARP queue pair after all posted requests.
// Connected.OnClose is called when both ends are done.
func (q *QP) DisconnectStream() error {
	c, err := q.iwarpConn()
	if err == nil {
		c.Disconnect()
	}
	return err
}

// TRPConn returns the connection of a TRP queue pair, which goes to RTS with its association.
func (q *QP) TRPConn() (*trp.Conn, error) {
	c, ok := trp.ConnOf(q.conn)
	if !ok {
		return nil, fail(syscall.EOPNOTSUPP, "QP",
			"is of a %v device: only those of TRP have an association", q.ctx.info.Kind)
	}
	return c, nil
}

func (q *QP) iwarpConn() (*iwarp.Conn, error) {
	c, ok := iwarp.ConnOf(q.conn)
	if !ok {
		return nil, fail(syscall.EOPNOTSUPP, "QP",
			"is of a %v device: only those of iWARP have a stream", q.ctx.info.Kind)
	}
	return c, nil
}
