// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/ib"
	wire "verbena/internal/wire/roce"
)

// Automatic path migration. The bit MigReq of a packet is 0 while its sender could migrate:
//
//	MIGRATED ── modify ──► REARM ── packet with MigReq 0 ──► ARMED
//	   ▲                                                       │
//	   └── modify; no retry is left; packet by the alternate ──┘
//	       path with MigReq 1
//
// A queue pair that migrates sends MigReq 1 by the alternate path, and the peer follows. That path
// is then the path, and there is no other until the application loads one.
//
// Spec: IBTA vol. 1, 17.2.8 (automatic path migration).

// SetAlternate sets the path that the next modification with QPAltPath loads.
func (q *Core) SetAlternate(path *Path) { q.alt = path }

// CurrentPath returns the path.
func (q *Core) CurrentPath() *Path { return q.Path }

// setMigration carries out a modification of the state.
func (q *Core) setMigration(s ib.MigState) {
	q.early = false
	switch {
	case s == ib.MigRearm && q.alt != nil:
		q.Attr.PathMigState = ib.MigRearm
	case s == ib.MigMigrated && !q.Migrate():
		q.Attr.PathMigState = ib.MigMigrated
	}
}

// Migrate changes to the alternate path. It reports false if the queue pair is not armed.
func (q *Core) Migrate() bool {
	if q.Attr.PathMigState != ib.MigArmed || q.alt == nil {
		return false
	}
	q.Path, q.alt = q.alt.WithECN(q.Path.TClass&ecnMask), nil
	a := &q.Attr
	a.AH, a.PortNum, a.PKeyIndex, a.Timeout = a.AltAH, a.AltPortNum, a.AltPKeyIndex, a.AltTimeout
	a.AltAH, a.AltPortNum, a.AltPKeyIndex, a.AltTimeout = ib.AHAttr{}, 0, 0, 0
	a.PathMigState = ib.MigMigrated
	q.Raise(ib.EventPathMig)
	return true
}

// MayMigrate reports whether the queue pair is armed, or will be.
func (q *Core) MayMigrate() bool { return q.Attr.PathMigState != ib.MigMigrated }

// mayFollow reports whether a packet asks to migrate to the alternate path. One that asks too early
// is not followed, and the application is notified once.
func (q *Core) mayFollow(p *wire.Packet, m *Meta) bool {
	if !p.MigReq || !q.alt.reaches(m) {
		return false
	}
	if q.Attr.PathMigState == ib.MigRearm && !q.early {
		q.early = true
		q.Raise(ib.EventPathMigErr)
	}
	return q.Attr.PathMigState == ib.MigArmed
}

// noteMigration notes what an admitted packet says of the peer's state.
func (q *Core) noteMigration(p *wire.Packet, m *Meta) {
	switch {
	case p.Opcode == wire.CNP: // its bit is always 0
	case q.Attr.PathMigState == ib.MigRearm && !p.MigReq:
		q.Attr.PathMigState = ib.MigArmed
	case !q.Path.reaches(m):
		q.Migrate()
	}
}

// Near reports whether psn is at most n before or after the one expected.
func Near(psn, expected ib.PSN, n int32) bool {
	d := psn.Diff(expected)
	return -n <= d && d <= n
}
