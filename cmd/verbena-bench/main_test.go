// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"bytes"
	"strings"
	"testing"

	"verbena/internal/tools/bench"
	"verbena/internal/tools/cli"
)

func TestWrongCalls(t *testing.T) {
	for args, c := range map[string]struct {
		status int
		want   string
	}{
		"--rounds 0":          {cli.ExitUsage, "at least 1"},
		"--only [":            {cli.ExitUsage, "--only"},
		"more":                {cli.ExitUsage, "no arguments"},
		"--only nothing* -o=": {cli.ExitFailure, "no measure is named"},
		"--only *WRITE*":      {cli.ExitFailure, "make build leaves it there"},
	} {
		cmd := bench.Command()
		cmd.SetArgs(strings.Fields(args))
		var errOut bytes.Buffer
		if status := cli.Execute(t.Context(), cmd, &errOut); status != c.status || !strings.Contains(errOut.String(), c.want) {
			t.Errorf("verbena-bench %s: status %d, %s; want %d and %q", args, status, errOut.String(), c.status, c.want)
		}
	}
}
