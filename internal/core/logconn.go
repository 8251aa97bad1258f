// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"context"
	"log/slog"
	"net/netip"

	"verbena/ib"
)

// ConnEvent is an event of the connection manager, for a Log.
type ConnEvent struct {
	Type        string // as librdmacm names it
	Local, Peer netip.AddrPort
	QPN         ib.QPN // 0: there is no queue pair
	PeerQPN     ib.QPN // of a refused request; 0: it names none
	Err         error  // why the connection failed; nil for another event
}

// LogConnection writes an event of the connection manager to the log of the process's devices.
// device is the one of the connection, and may be empty.
func LogConnection(device string, e *ConnEvent) {
	h := serving.Load()
	if h == nil || h.log == nil {
		return
	}
	l := h.log
	if device != "" {
		l = l.of(device)
	}
	l.connection(e)
}

// Logs reports whether LogConnection writes anything.
func Logs() bool {
	h := serving.Load()
	return h != nil && h.log != nil
}

func (l verbLog) connection(e *ConnEvent) {
	level := slog.LevelInfo
	if e.Err != nil {
		level = slog.LevelWarn
	}
	if !l.wants(level) {
		return
	}
	attrs := []slog.Attr{slog.String("type", e.Type)}
	if e.QPN != 0 {
		attrs = append(attrs, slog.Any("qpn", text{e.QPN}))
	}
	if e.Local.IsValid() {
		attrs = append(attrs, slog.Any("local", text{e.Local}))
	}
	switch {
	case !e.Peer.IsValid():
	case e.Peer.Port() == 0: // the request names none
		attrs = append(attrs, slog.Any("peer", text{e.Peer.Addr()}))
	default:
		attrs = append(attrs, slog.Any("peer", text{e.Peer}))
	}
	if e.PeerQPN != 0 {
		attrs = append(attrs, slog.Any("peer_qpn", text{e.PeerQPN}))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("reason", e.Err))
	}
	l.to.LogAttrs(context.Background(), level, "connection event", attrs...)
}
