// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"verbena/internal/trace"
	"verbena/internal/wire/pcap"
)

// burst takes the datagrams of a frame, each of n bytes and the last perhaps shorter. The comment
// and the fields are those of the first.
func (b *builder) burst(d *pcap.Datagram, n int, take func(*pcap.Datagram)) {
	for one := range trace.Cut(d, n) {
		take(one)
		b.comment = ""
		b.fields.reset()
	}
}
