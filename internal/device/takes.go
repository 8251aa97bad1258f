package device

import (
	"errors"

	"verbena/internal/osio/tap"
)

// HasPackets reports whether devices of a kind send anything that can be captured.
func (k Kind) HasPackets() bool { return k != KindNTB }

// TakesFaults says why what devices of a kind send cannot be harmed by f; nil if
// it can.
func (k Kind) TakesFaults(f tap.Faults) error {
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
