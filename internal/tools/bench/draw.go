// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"verbena/internal/tools/chart"
	"verbena/internal/tools/cli"
)

// drawCommand returns "verbena-bench draw".
func drawCommand() *cobra.Command {
	dir, page := "docs/charts", ""
	cmd := &cobra.Command{
		Use:   "draw [BENCH.JSON]",
		Short: "Draw charts of a run",
		Args:  cli.Args(0, 1, "at most one BENCH.JSON"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "bench.json"
			if len(args) == 1 {
				file = args[0]
			}
			report, err := readReport(file)
			if err != nil {
				return err
			}
			if page != "" {
				return writePage(page, report)
			}
			drawn, err := report.drawAll(dir)
			for _, d := range drawn {
				fmt.Fprintln(cmd.OutOrStdout(), d.light)
				fmt.Fprintln(cmd.OutOrStdout(), d.dark)
			}
			if err == nil && drawn == nil {
				err = fmt.Errorf("%s has no rows for a chart", file)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", dir, "write the charts into `DIR`")
	cmd.Flags().StringVar(&page, "page", "",
		"write table and charts into `FILE` instead, as without draw; its charts lie beside it")
	return cmd
}

func readReport(file string) (*Report, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w: make bench writes such a file", file, err)
	}
	return &r, nil
}

// drawn is a figure in a folder.
type drawn struct {
	light, dark string // paths
	alternative string
}

// drawAll draws the charts for which there are rows, each for light and dark paper. Charts without
// rows are removed.
func (r *Report) drawAll(dir string) (all []drawn, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, f := range figures {
		d := drawn{light: filepath.Join(dir, f.file+".svg"),
			dark: filepath.Join(dir, f.file+"-dark.svg")}
		c, err := f.chart(r.Results, r.Machine.String())
		if errors.Is(err, errNoRows) {
			if err := errors.Join(remove(d.light), remove(d.dark)); err != nil {
				return all, err
			}
			continue
		}
		for path, theme := range map[string]chart.Theme{d.light: chart.Light, d.dark: chart.Dark} {
			var svg []byte
			if err == nil {
				svg, err = c.SVG(theme)
			}
			if err == nil {
				err = os.WriteFile(path, svg, 0o644)
			}
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", f.file, err)
		}
		d.alternative = alternative(c)
		all = append(all, d)
	}
	return all, nil
}

// remove removes a file, if it is there.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
