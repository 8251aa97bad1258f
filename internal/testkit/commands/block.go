// SPDX-License-Identifier: BSD-2-Clause

package commands

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Block is one fenced block of a page.
type Block struct {
	File     string
	Line     int    // of its first line
	Language string // empty if the fence names none
	ByApps   bool   // make apps runs it
	NotRun   string // the reason why no test runs it; empty if one does
	Text     string
}

var (
	byApps = regexp.MustCompile(`^<!-- run by make apps(: .+)? -->$`)
	notRun = regexp.MustCompile(`^<!-- not run: (.+) -->$`)
)

// Blocks returns the fenced blocks of a page. The error names a block that does not end.
func Blocks(file string) ([]Block, error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []Block
	var b *Block
	before := ""
	for i, line := range strings.Split(string(page), "\n") {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && b == nil:
			b = &Block{File: file, Line: i + 1, Language: language,
				ByApps: byApps.MatchString(before)}
			if m := notRun.FindStringSubmatch(before); m != nil {
				b.NotRun = m[1]
			}
		case fence:
			all = append(all, *b)
			b = nil
		case b != nil:
			b.Text += line + "\n"
		}
		before = line
	}
	if b != nil {
		return nil, fmt.Errorf("%s:%d: the block does not end", file, b.Line)
	}
	return all, nil
}

// Typed reports whether the block has commands.
func (b *Block) Typed() bool { return b.Language == "sh" || b.Language == "console" }

// Script returns the commands.
func (b *Block) Script() string {
	if b.Language == "sh" {
		return b.Text
	}
	var script strings.Builder
	for line := range strings.Lines(b.Text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			script.WriteString(command)
		}
	}
	return script.String()
}

// NotSaid returns the lines of output that the block shows and the commands did not
// print, in this order. Numbers may differ; … stands for any lines.
func (b *Block) NotSaid(said string) (missing []string) {
	if b.Language == "sh" {
		return nil
	}
	lines := strings.Split(said, "\n")
	for line := range strings.Lines(b.Text) {
		want := form(line)
		if strings.HasPrefix(line, "$ ") || want == "" || want == "…" {
			continue
		}
		i := 0
		for i < len(lines) && form(lines[i]) != want {
			i++
		}
		if i == len(lines) {
			missing = append(missing, strings.TrimSpace(line))
			continue
		}
		lines = lines[i+1:]
	}
	return missing
}

var (
	numbers = regexp.MustCompile(`\b(0x)?[0-9a-f]*[0-9][0-9a-f.]*\b`)
	spaces  = regexp.MustCompile(`\s+`)
)

// form is a line without the parts that differ between runs.
func form(line string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(numbers.ReplaceAllString(line, "#"), " "))
}
