// SPDX-License-Identifier: BSD-2-Clause

package backend

import "verbena/internal/ntb/window"

// A link whose peer's window is mapped here gives it to code that stores there besides Write: until
// Close.

// Peer returns the window that Write writes.
func (l *mapped) Peer() window.Far { return l.peer }
