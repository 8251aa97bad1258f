// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"verbena/internal/tools/cli"
	"verbena/internal/version"
)

// drawCommand returns "verbena-bench draw".
func drawCommand() *cobra.Command {
	dir := "docs/charts"
	cmd := &cobra.Command{
		Use:   "draw [BENCH.JSON]",
		Short: "Draw charts of a run, on the machine that it ran on",
		Args:  cli.Args(0, 1, "at most one BENCH.JSON"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "bench.json"
			if len(args) == 1 {
				file = args[0]
			}
			drawn, err := drawAll(file, dir)
			for _, path := range drawn {
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", dir, "write the charts into `DIR`")
	return cmd
}

// drawAll draws the charts for which the file has rows, and returns their paths.
func drawAll(file, dir string) (drawn []string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	var results []Result
	if err := json.Unmarshal(b, &results); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, f := range figures {
		svg, err := f.draw(results, machine(info.ModTime()))
		if errors.Is(err, errNoRows) {
			continue
		}
		if err != nil {
			return drawn, fmt.Errorf("%s: %w", f.file, err)
		}
		path := filepath.Join(dir, f.file)
		if err := os.WriteFile(path, svg, 0o644); err != nil {
			return drawn, err
		}
		drawn = append(drawn, path)
	}
	if drawn == nil {
		return nil, fmt.Errorf("%s has no rows for a chart", file)
	}
	return drawn, nil
}

// machine says where and when something was measured, and with which versions.
func machine(at time.Time) string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // make bench is for Linux
	return fmt.Sprintf("%s, %d cores, Linux %s, verbena %s, %s, %s", processor(), runtime.NumCPU(),
		strings.TrimSpace(string(kernel)), version.String(), runtime.Version(),
		at.Format(time.DateOnly))
}

// processor returns the name of the processor, or its architecture.
func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
