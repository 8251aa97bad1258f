//go:build cabi

package cabitest

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestRsocket runs every program of testdata that is about rsockets.
func TestRsocket(t *testing.T) {
	files, err := filepath.Glob("testdata/rsocket_*.c")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, addr := range addresses(t) {
		for _, f := range files {
			name := strings.TrimSuffix(filepath.Base(f), ".c")
			t.Run(strings.TrimPrefix(name, "rsocket_")+"/"+addr, func(t *testing.T) { run(t, name, addr) })
		}
	}
}
