// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"context"
	"flag"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"verbena/internal/tools/cli"
)

var picture = flag.String("picture", "", "write what verbena top shows of the running processes into this SVG file, after some seconds")

// Sizes of a cell of the terminal in pixels.
const cellWidth, cellHeight = 8, 17

const pictureRows = 10

// drawScreen returns the cells of a terminal as SVG.
func drawScreen(screen tcell.SimulationScreen) string {
	cells, width, height := screen.GetContents()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d">`+"\n<title>verbena top</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#0d1117\"/>\n"+
		`<g font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="13">`+"\n", width*cellWidth, height*cellHeight)
	hex := func(c tcell.Color, otherwise string) string {
		if c == tcell.ColorDefault || c.Hex() < 0 {
			return otherwise
		}
		return fmt.Sprintf("#%06x", c.Hex())
	}
	for y := range height {
		for x := 0; x < width; {
			style, from, text := cells[y*width+x].Style, x, ""
			for ; x < width && cells[y*width+x].Style == style; x++ {
				text += string(cells[y*width+x].Runes)
			}
			fg, bg, attributes := style.Decompose()
			ink, paper := hex(fg, "#e6edf3"), hex(bg, "#0d1117")
			if attributes&tcell.AttrReverse != 0 {
				ink, paper = paper, ink
			}
			if paper != "#0d1117" && paper != "#000000" {
				fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", from*cellWidth, y*cellHeight, (x-from)*cellWidth, cellHeight, paper)
			}
			if strings.TrimSpace(text) == "" {
				continue
			}
			weight := ""
			if attributes&tcell.AttrBold != 0 {
				weight = ` font-weight="bold"`
			}
			text = strings.TrimRight(text, " ")
			fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%d" fill="%s"%s>%s</text>`+"\n", from*cellWidth, y*cellHeight+13, len([]rune(text))*cellWidth, ink, weight, html.EscapeString(strings.ReplaceAll(text, " ", "\u00a0"))) // spaces that stay
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// The picture of the documentation is drawn from the terminal's cells.
//
//	go test ./internal/tools/stat -run TestTopPicture -picture ../../../docs/top.svg
func TestTopPicture(t *testing.T) {
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	screen.SetSize(80, pictureRows)
	if *picture == "" { // the drawing itself
		for i, r := range "verbena top <script>" {
			screen.SetContent(i, 0, r, nil, tcell.StyleDefault.Foreground(tcell.ColorRed).Reverse(i > 10))
		}
		screen.Show()
		svg := drawScreen(screen)
		for _, want := range []string{"fill=\"#ff0000\">verbena\u00a0top<", "fill=\"#0d1117\">\u00a0&lt;script&gt;<", `width="72" height="17" fill="#ff0000"`} {
			if !strings.Contains(svg, want) {
				t.Errorf("no %s in\n%s", want, svg)
			}
		}
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	view, drawn := newTop(filter{}, cli.RuntimeDir(), time.Second), ""
	view.app.SetAfterDrawFunc(func(tcell.Screen) {
		if _, rows := screen.Size(); rows != pictureRows { // Init had its own
			screen.SetSize(80, pictureRows)
			_ = screen.PostEvent(tcell.NewEventResize(80, pictureRows)) // the queue is empty
			return
		}
		drawn = drawScreen(screen)
	})
	_ = view.run(ctx, screen) // until the time is over
	if err := os.WriteFile(*picture, []byte(drawn), 0o644); err != nil {
		t.Fatal(err)
	}
}
