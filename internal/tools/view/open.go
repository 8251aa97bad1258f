// SPDX-License-Identifier: BSD-2-Clause

package view

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"verbena/internal/timeline"
)

// openPage writes the page to a temporary file and lets the desktop open it. Without a desktop it
// says where the file is.
func openPage(cmd *cobra.Command, t *timeline.Timeline, capture string) error {
	name := strings.TrimSuffix(filepath.Base(capture), filepath.Ext(capture))
	name = strings.Map(func(r rune) rune {
		if r == '*' || r == os.PathSeparator {
			return '-'
		}
		return r
	}, name)
	f, err := os.CreateTemp("", name+"-*.html")
	if err != nil {
		return err
	}
	err = WritePage(f, t)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), f.Name())
	if !hasDesktop() {
		fmt.Fprintln(cmd.ErrOrStderr(), "verbena: there is no desktop: open the file in a "+
			"browser, or give --listen 127.0.0.1:8080 and forward that port")
		return nil
	}
	opener, err := exec.LookPath("xdg-open")
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(),
			"verbena: xdg-open is not installed: open the file in a browser")
		return nil
	}
	out, err := exec.CommandContext(cmd.Context(), opener, f.Name()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("xdg-open %s: %w: %s", f.Name(), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func hasDesktop() bool { return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" }
