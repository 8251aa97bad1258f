// SPDX-License-Identifier: BSD-2-Clause

package browser

import (
	"testing"
	"time"
)

// TestEndlessLoop: a page that does not answer fails its test, and its browser ends.
func TestEndlessLoop(t *testing.T) {
	b := Start(t, 100, 100)
	b.bound = time.Second
	err := b.ask(b.session, "Runtime.evaluate", map[string]any{"expression": "while (true);"}, nil)
	if err == nil || err.Error() != "no answer within 1s" {
		t.Errorf("%v", err)
	}
}
