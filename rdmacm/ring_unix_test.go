// SPDX-License-Identifier: BSD-2-Clause

//go:build unix

package rdmacm

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"verbena/internal/testkit/loopback"
	"verbena/internal/wire/pcapread"
	"verbena/verbs"
)

// The first attempt to connect that fails writes the newest packets, and no later one does.
func TestRingOfARefusedConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ring.pcapng")
	dev, err := verbs.Open(loopback.Device(t), verbs.WithCaptureRing(file, 1<<20))
	check(t, err)
	t.Cleanup(func() { check(t, dev.Close()) })
	newFabric(t).alone()
	for _, k := range []Kind{TRP, IWARP} { // whose packets the fabric does not carry
		if _, err := Dial(within(t), "127.0.0.1:9", &Options{Kind: k}); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("nobody listens: %v", err)
		}
		check(t, verbs.FlushCapture())
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	if len(files) != 1 || files[0] != file {
		t.Fatalf("files %q", files)
	}
	r, err := pcapread.Open(file)
	check(t, err)
	defer r.Close()
	n := 0
	for ; err == nil; n++ {
		_, _, err = r.NextPacket()
	}
	if n < 2 { // a request, and the end
		t.Error("no packets")
	}
}
