// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"errors"

	"verbena/internal/sys/faultcap"
)

// HasPackets reports whether devices of a kind send anything that can be captured.
func (k Kind) HasPackets() bool { return k != KindNTB }

// HasLinks reports whether devices of a kind are ends of links between two nodes, not interfaces.
func (k Kind) HasLinks() bool { return k == KindNTB }

// HasAHs reports whether devices of a kind have address handles. iWARP sends nothing to a GID.
func (k Kind) HasAHs() bool { return !k.IsIWARP() }

// TakesFaults returns the reason for which f cannot be injected into the packets of a kind of
// device; nil if it can.
func (k Kind) TakesFaults(f faultcap.Faults) error {
	switch {
	case !k.HasPackets() && !f.None():
		return errors.New("faults: an NTB link has no packets to inject faults into")
	case !k.HasPackets():
		return nil
	case k == KindIWARP:
		return f.ForStreams()
	}
	return f.ForDatagrams()
}
