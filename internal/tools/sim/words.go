// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"verbena/internal/monotime"
)

// line reads the words of one line. The first error stays, and the words after it are empty.
type line struct {
	place string // FILE:LINE
	words []string
	last  string // the word read last
	err   error
}

// wrong takes note of an error in a word, with advice.
func (l *line) wrong(word, format string, a ...any) {
	if l.err == nil {
		l.err = fmt.Errorf("%s: %s: %s", l.place, word, fmt.Sprintf(format, a...))
	}
}

func (l *line) more() bool { return l.err == nil && len(l.words) > 0 }

// next reads a word. The advice says what it should be.
func (l *line) next(advice string) string {
	if l.err != nil {
		return ""
	}
	if len(l.words) == 0 {
		l.wrong(l.last, "%s", advice)
		return ""
	}
	l.last, l.words = l.words[0], l.words[1:]
	return l.last
}

// quantity reads a number with a unit, at least least.
func (l *line) quantity(units []unit, least int64, advice string) int64 {
	word := l.next(advice)
	n, ok := quantity(word, units)
	if l.err == nil && (!ok || n < least) {
		l.wrong(word, "%s", advice)
	}
	return n
}

func (l *line) time() monotime.Duration {
	return monotime.Duration(l.quantity(timeUnits, 0, "say a time, as in 10us or 1.5ms"))
}

// longTime reads a time above 0.
func (l *line) longTime() monotime.Duration {
	return monotime.Duration(l.quantity(timeUnits, 1, "say a time above 0, as in 10us or 1.5ms"))
}

// maxRate bounds rates. Time has steps of 1 ns, in which a packet is to pass at most.
const maxRate = 1e12

func (l *line) rate() int64 {
	n := l.quantity(rateUnits, 1000, "say a rate, as in 10Gb/s")
	if n > maxRate {
		l.wrong(l.last, "at most 1000Gb/s")
	}
	return n
}

func (l *line) size() int64 { return l.quantity(sizeUnits, 1, "say a size, as in 100KB or 1MiB") }

func (l *line) chance() int {
	n := l.quantity(chanceUnits, 0, "say a part of the packets, as in 0.1%")
	if n > 1e6 {
		l.wrong(l.last, "at most 100%%")
	}
	return int(n)
}

// count reads a number.
func (l *line) count(least, most int64) int64 {
	word := l.next(fmt.Sprintf("say a number from %d to %d", least, most))
	n, err := strconv.ParseInt(word, 10, 64)
	if l.err == nil && (err != nil || n < least || n > most) {
		l.wrong(word, "say a number from %d to %d", least, most)
	}
	return n
}

// maxNames bounds the hosts and switches of a network.
const maxNames = 20_000

// names reads a name, or a range of them such as h1..h64.
func (l *line) names(advice string) []string {
	word := l.next(advice)
	if l.err != nil {
		return nil
	}
	from, to, isRange := strings.Cut(word, "..")
	if !isRange {
		if !isName(word) {
			l.wrong(word, "a name has letters and digits: %s", advice)
		}
		return []string{word}
	}
	list, err := between(from, to)
	if err != nil {
		l.wrong(word, "%s", err)
	}
	return list
}

func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			r != '_' && r != '-'
	})
}

// between returns the names of a range.
func between(from, to string) ([]string, error) {
	number := func(s string) (string, int) {
		name := strings.TrimRight(s, "0123456789")
		n, err := strconv.Atoi(s[len(name):])
		if err != nil {
			return name, math.MaxInt
		}
		return name, n
	}
	name, first := number(from)
	other, last := number(to)
	if !isName(name) || name != other || first > last || last == math.MaxInt {
		return nil, errors.New("a range has one name and two numbers, the lower first: h1..h64")
	}
	if last-first >= maxNames {
		return nil, fmt.Errorf("at most %d hosts and switches", maxNames)
	}
	var list []string
	for i := first; i <= last; i++ {
		list = append(list, name+strconv.Itoa(i))
	}
	return list, nil
}
