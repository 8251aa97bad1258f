// SPDX-License-Identifier: BSD-2-Clause

package raw

import (
	"testing"

	"verbena/internal/sys/packet"
)

// A socket that the program has closed is not taken for one that always has frames.
func TestBrokenSocketHasNoFrames(t *testing.T) {
	in := &input{link: &link{of: new(Transport)}, recv: new(packet.Receiver)} // standard input
	if n := in.TryPoll(false); n != 0 || in.link.of.malformed.Load() != 0 {
		t.Errorf("%d frames, %d malformed", n, in.link.of.malformed.Load())
	}
}
