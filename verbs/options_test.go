// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

// A congestion control that does not exist is refused by an error that names those that do.
func TestWithCongestionControl(t *testing.T) {
	_, err := verbs.Open(loopback.Device(t), verbs.WithCongestionControl("cubic"))
	wantError(t, err, syscall.EINVAL, "congestion")
	if err != nil && !strings.Contains(err.Error(), "delivery-rate or dcqcn") {
		t.Error(err)
	}
	for _, name := range []string{"delivery-rate", "dcqcn"} {
		c, err := verbs.Open(loopback.Device(t), verbs.WithCongestionControl(name))
		check(t, err)
		check(t, c.Close())
	}
}

// A later Open has the options of the first, or some of them. Another is refused by its name.
func TestOptionsOfALaterOpen(t *testing.T) {
	dev, path := loopback.Device(t), filepath.Join(t.TempDir(), "all.pcapng")
	first, err := verbs.Open(dev, verbs.WithFaults("loss=1%"), verbs.WithCapture(path), verbs.WithoutSharing())
	check(t, err)
	defer first.Close()
	for name, o := range map[string]verbs.Option{
		"faults":     verbs.WithFaults("loss=2%"),
		"capture":    verbs.WithCapture(path + "2"),
		"local path": verbs.WithoutLocalPath(),
		"congestion": verbs.WithCongestionControl("dcqcn"),
		"xdp":        verbs.WithXDP("eth0"),
		"logger":     verbs.WithLogger(slog.Default()),
	} {
		_, err := verbs.Open(dev, o)
		wantError(t, err, syscall.EBUSY, name)
	}
	for _, same := range [][]verbs.Option{nil, {verbs.WithCongestionControl("delivery-rate")}, {verbs.WithFaults("loss=1%")}, {verbs.WithoutSharing(), verbs.WithCapture(path)}} {
		c, err := verbs.Open(dev, same...)
		check(t, err)
		check(t, c.Close())
	}
}
