// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	wire "verbena/internal/wire/ntb"
)

// TestPulledDevice: words of ones mean nothing by themselves, but with them a device is looked for.
// There is no link any more when it has gone, or its configuration space reads as ones too.
func TestPulledDevice(t *testing.T) {
	for _, c := range []struct {
		name string
		pull func(folder string) error
	}{
		{"removed", os.RemoveAll},
		{"surprise", func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "config"), bytes.Repeat([]byte{0xff}, 64), 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "0000:00:05.0")
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(os.Mkdir(folder, 0o700))
			for name, is := range map[string]string{"vendor": "0x8086\n", "device": "0x6f0d\n",
				"config": "\x86\x80\x0d\x6f", "resource2": ""} {
				must(os.WriteFile(filepath.Join(folder, name), []byte(is), 0o600))
			}
			bar := filepath.Join(folder, "resource2")
			must(os.Truncate(bar, 2*MinWindowBytes))
			l, err := openPCI(folder, 1)
			must(err)
			defer l.Close()
			must(l.Receive())
			l.own.Store4(wire.OffSignal, ones)
			must(l.Receive()) // a peer may write that
			must(c.pull(folder))
			l.own.Store4(wire.OffSignal, 1)
			must(l.Receive()) // a word of another value is from a device
			l.own.Store4(wire.OffSignal, ones)
			l.looked = time.Now()
			must(l.Receive()) // a peer's ones do not have the system asked each time
			l.looked = time.Time{}
			for range 2 {
				if err := l.Receive(); !errors.Is(err, ErrGone) {
					t.Fatalf("error %v, want %v", err, ErrGone)
				}
			}
		})
	}
}

// A shared file is no device: its words may be ones.
func TestOnesOfFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "window")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 2*MinWindowBytes)); err != nil {
		t.Fatal(err)
	}
	l, err := openFile(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.own.Store4(wire.OffSignal, ones)
	if err := l.Receive(); err != nil {
		t.Error(err)
	}
}
