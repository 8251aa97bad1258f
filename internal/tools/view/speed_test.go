// SPDX-License-Identifier: BSD-2-Clause

package view

import (
	"io"
	"testing"

	"verbena/internal/testkit/talk"
	"verbena/internal/wire/roce"
)

// BenchmarkMillion makes the page of a capture of a million packets.
func BenchmarkMillion(b *testing.B) {
	c := talk.New(b)
	for i := range uint32(500_000) {
		c.Send(roce.RCSendOnly, i, 64)
		c.Ack(i)
	}
	capture := c.Bytes()
	b.ResetTimer()
	for range b.N {
		if err := WritePage(io.Discard, read(b, "million", capture)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(capture))/1e6, "MB")
}
