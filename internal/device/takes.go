// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"errors"

	"verbena/internal/sys/faultcap"
)

// HasPackets reports whether devices of a kind send anything that can be captured.
func (k Kind) HasPackets() bool { return k != KindNTB }

// TakesFaults says why what devices of a kind send cannot be harmed by f; nil if
// it can.
func (k Kind) TakesFaults(f faultcap.Faults) error {
	switch {
	case !k.HasPackets() && !f.None():
		return errors.New("faults: a link of windows has no packets to harm")
	case !k.HasPackets():
		return nil
	case k == KindIWARP:
		return f.ForStreams()
	}
	return f.ForDatagrams()
}
