// SPDX-License-Identifier: BSD-2-Clause

package layout

import (
	"encoding/binary"
	"testing"
)

// Any bytes are specs or an error.
func FuzzFlowSpecs(f *testing.F) {
	sizes := map[uint32]int{specEth: ethBytes, specIPv4: ipv4Bytes, specIPv4Ext: ipv4ExtBytes, specIPv6: ipv6Bytes, specTCP: portsBytes, specUDP: portsBytes, actionTag: tagBytes, actionDrop: dropBytes}
	for kind, size := range sizes {
		b := make([]byte, size)
		binary.NativeEndian.PutUint32(b, kind)
		binary.NativeEndian.PutUint16(b[4:], uint16(size))
		f.Add(b)
		f.Add(append(b, b...))
		f.Add(b[:size-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		specs, err := FlowSpecs(b)
		if err == nil && (len(specs) == 0) != (len(b) == 0) || len(specs)*dropBytes > len(b) {
			t.Fatalf("%d specs in %d bytes, %v", len(specs), len(b), err)
		}
	})
}
