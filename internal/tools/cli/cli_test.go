// SPDX-License-Identifier: BSD-2-Clause

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"verbena/ib"
	"verbena/internal/testkit/loopback"
	"verbena/rdmacm"
)

func execute(ctx context.Context, run func(*cobra.Command, []string) error, args ...string) (status int, stderr string) {
	cmd := &cobra.Command{Use: "verbena", RunE: run}
	cmd.AddCommand(&cobra.Command{Use: "sub", RunE: func(*cobra.Command, []string) error { return nil }})
	cmd.Flags().Int("n", 0, "")
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	var b bytes.Buffer
	return Execute(ctx, cmd, &b), b.String()
}

func TestExitStatusSaysWhatHappened(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	fails := func(err error) func(*cobra.Command, []string) error {
		return func(*cobra.Command, []string) error { return err }
	}
	for _, c := range []struct {
		name   string
		ctx    context.Context
		run    func(*cobra.Command, []string) error
		args   []string
		status int
		stderr string
	}{
		{"success", t.Context(), fails(nil), nil, ExitOK, ""},
		{"failure", t.Context(), fails(errors.New("it broke")), nil, ExitFailure, "verbena: it broke\n"},
		{"several lines", t.Context(), fails(errors.Join(errors.New("a"), errors.New("b"))), nil, ExitFailure, "verbena: a b\n"},
		{"wrong call", t.Context(), fails(Usagef("--n %d is odd", 3)), nil, ExitUsage, "verbena: --n 3 is odd\n"},
		{"wrapped", t.Context(), fails(fmt.Errorf("x: %w", Usagef("y"))), nil, ExitUsage, "verbena: x: y\n"},
		{"unknown flag", t.Context(), fails(nil), []string{"--m"}, ExitUsage, "verbena: unknown flag: --m; see 'verbena --help'\n"},
		{"interrupt", interrupted, fails(context.Canceled), nil, ExitInterrupted, ""},
	} {
		status, stderr := execute(c.ctx, c.run, c.args...)
		if status != c.status || stderr != c.stderr {
			t.Errorf("%s: status %d, %q", c.name, status, stderr)
		}
	}
}

func TestUnknownCommandIsAWrongCall(t *testing.T) {
	cmd := &cobra.Command{Use: "verbena"}
	cmd.AddCommand(&cobra.Command{Use: "perf", RunE: Group})
	cmd.SetArgs([]string{"prf"})
	var b bytes.Buffer
	if status := Execute(t.Context(), cmd, &b); status != ExitUsage || b.String() != "verbena: unknown command \"prf\" for \"verbena\" Did you mean this? perf; see 'verbena --help'\n" {
		t.Errorf("status %d, %q", status, &b)
	}
}

func entry(i int, addr string) ib.GIDEntry {
	return ib.GIDEntry{Index: i, GID: ib.GIDFromAddr(netip.MustParseAddr(addr)), Type: ib.GIDTypeRoCEv2}
}

func TestGIDIsChosenOrNamed(t *testing.T) {
	table := []ib.GIDEntry{entry(0, "fe80::1"), entry(1, "2001:db8::1"), entry(2, "192.0.2.1"), entry(3, "198.51.100.1"), {Index: 4}}
	for index, want := range map[int]string{AnyGID: "192.0.2.1", 0: "fe80::1", 3: "198.51.100.1"} {
		if e, err := ChooseGID(table, index, "port 1"); err != nil || e.GID.Addr().String() != want {
			t.Errorf("index %d: %v, %v", index, e.GID.Addr(), err)
		}
	}
	if e, err := ChooseGID(table[:2], AnyGID, "port 1"); err != nil || e.Index != 1 {
		t.Errorf("without IPv4: %v, %v", e, err)
	}
	for _, index := range []int{4, 5} {
		if _, err := ChooseGID(table, index, "port 1"); err == nil || !strings.Contains(err.Error(), "0 (fe80::1), 1 (2001:db8::1)") {
			t.Errorf("index %d: %v", index, err)
		}
	}
	if _, err := ChooseGID(nil, AnyGID, "port 1"); err == nil || !strings.Contains(err.Error(), "IP address") {
		t.Errorf("empty table: %v", err)
	}
}

func TestPortIsOfTheDevice(t *testing.T) {
	for port, want := range map[int]string{0: "roce_lo has no port 0; its ports are 1 to 1", 1: "", 2: "roce_lo has no port 2; its ports are 1 to 1"} {
		got := ""
		if err := CheckPort("roce_lo", port, 1); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("port %d: %q", port, got)
		}
	}
}

func TestMTUFlagTakesTheFive(t *testing.T) {
	for n, want := range map[int]ib.MTU{256: ib.MTU256, 4096: ib.MTU4096} {
		if m, err := MTUFlag(n); err != nil || m != want {
			t.Errorf("%d: %v, %v", n, m, err)
		}
	}
	for _, n := range []int{0, -1, 255, 1500, 8192} {
		if _, err := MTUFlag(n); err == nil {
			t.Errorf("%d was taken", n)
		}
	}
}

func TestNumberOutOfItsRangeIsNamed(t *testing.T) {
	for _, c := range []struct {
		r    Range
		want string
	}{
		{Range{"--size", 0, 1, 8, "bytes"}, "--size 0: it must be 1 to 8 bytes"},
		{Range{"--size", 9, 1, 8, "bytes"}, "--size 9: it must be 1 to 8 bytes"},
		{Range{"--size", 8, 1, 8, "bytes"}, ""},
		{Range{"--iters", 0, 1, 0, "exchange"}, "--iters 0: at least 1 exchange"},
		{Range{"--iters", 1 << 30, 1, 0, "exchange"}, ""},
		{PortRange("-p", 65536), "-p 65536: it must be 1 to 65535"},
		{GIDRange("-g", AnyGID), ""},
		{GIDRange("-g", AnyGID-1), "-g -2: it must be 0 to 255"},
	} {
		err := CheckRanges(PortRange("-p", 1), c.r)
		if got := fmt.Sprint(err); err != nil && got != c.want || err == nil && c.want != "" {
			t.Errorf("%+v: %v, want %q", c.r, err, c.want)
		}
	}
}

func TestUnreachablePeerIsNamedWithWhatToDo(t *testing.T) {
	l, err := Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	if _, err := Listen(t.Context(), int(port)); err == nil || !strings.Contains(err.Error(), "--port") {
		t.Errorf("a port in use: %v", err)
	}
	l.Close()
	_, err = Dial(t.Context(), "127.0.0.1", int(port), "verbena perf write bw")
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1 port") || !strings.Contains(err.Error(), "start 'verbena perf write bw' there") {
		t.Errorf("error %v", err)
	}
	_, err = Dial(t.Context(), "no host", 1, "verbena perf write bw")
	if err == nil || err.Error() != "there is no host no host: give an IP address or a name that resolves" {
		t.Errorf("no such host: %v", err)
	}
}

func TestAcceptEndsWithItsContext(t *testing.T) {
	l, err := Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Accept(ctx, l); err != context.Canceled {
		t.Errorf("error %v", err)
	}
}

func TestLoadByte(t *testing.T) {
	b := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for i := range b {
		if got := LoadByte(&b[i]); got != b[i] {
			t.Errorf("byte %d: %d", i, got)
		}
	}
}

func TestProgressIsSilentWithoutTerminal(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, "x", 10)
	p.Set(5)
	p.Done()
	if b.Len() != 0 {
		t.Errorf("%q", &b)
	}
}

// TestDeviceIsOfTheKind: options of a process, which its first device is opened
// with, are those of the kind that was chosen.
func TestDeviceIsOfTheKind(t *testing.T) {
	loopback.Device(t)
	for _, c := range []struct {
		device Device
		want   rdmacm.Kind // none: refused
	}{
		{Device{Kind: "roce"}, rdmacm.RoCE},
		{Device{Kind: "iwarp", Faults: "cut=1%"}, rdmacm.IWARP},
		{Device{Kind: "trp", Faults: "loss=1%"}, rdmacm.TRP},
		{Device{Kind: "iwarp", Faults: "loss=1%"}, ""},
		{Device{Kind: "trp", Faults: "cut=1%"}, ""},
	} {
		if c.device.Kind == "iwarp" && runtime.GOOS != "linux" {
			continue // there is none
		}
		ctx, err := c.device.Open()
		switch {
		case err != nil && c.want != "":
			t.Errorf("%+v: %v", c.device, err)
		case err == nil && ctx.Info().Kind != c.want:
			t.Errorf("%+v: a device of kind %s", c.device, ctx.Info().Kind)
		}
		if err == nil {
			ctx.Close()
		}
	}
}
