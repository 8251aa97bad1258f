// SPDX-License-Identifier: BSD-2-Clause

package cm

import "encoding/binary"

// Sizes of an APR's variable parts, in bytes.
const (
	APRInfoSize    = 72
	APRPrivateSize = 148
)

// APStatus is the answer to a LAP.
type APStatus uint8

// Alternate path statuses.
const (
	APLoaded          APStatus = 0
	APInvalidCommID   APStatus = 1
	APUnsupported     APStatus = 2 // alternate paths not supported
	APRejected        APStatus = 3 // failover port rejected
	APRedirect        APStatus = 4
	APIsCurrent       APStatus = 5
	APInvalidQPN      APStatus = 6
	APInvalidLID      APStatus = 7
	APInvalidGID      APStatus = 8
	APInvalidFlow     APStatus = 9
	APInvalidTC       APStatus = 10
	APInvalidHopLimit APStatus = 11
	APInvalidRate     APStatus = 12
	APInvalidSL       APStatus = 13
)

// APR answers a LAP.
//
// Spec: IBTA vol. 1, table 116 APR message contents.
type APR struct {
	LocalCommID  uint32
	RemoteCommID uint32
	InfoLength   uint8 // bytes of Info that count
	Status       APStatus
	Info         [APRInfoSize]byte
	PrivateData  [APRPrivateSize]byte
}

// Append writes the 232 bytes of a.
func (a *APR) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, a.LocalCommID)
	b = binary.BigEndian.AppendUint32(b, a.RemoteCommID)
	b = append(b, a.InfoLength, uint8(a.Status), 0, 0)
	b = append(b, a.Info[:]...)
	return append(b, a.PrivateData[:]...)
}
