// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"verbena/internal/monotime"
)

// unit is a unit and its size in the smallest one.
type unit struct {
	name string
	size float64
}

var (
	timeUnits = []unit{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}
	sizeUnits = []unit{{"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}
	rateUnits   = []unit{{"b/s", 1}, {"Kb/s", 1e3}, {"Mb/s", 1e6}, {"Gb/s", 1e9}}
	chanceUnits = []unit{{"%", 1e4}} // of a million
)

// quantity reads a number with one of some units, such as 10Gb/s.
func quantity(word string, units []unit) (int64, bool) {
	i := strings.IndexFunc(word, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(word[:i], 64)
	k := slices.IndexFunc(units, func(u unit) bool { return u.name == word[i:] })
	if err != nil || k < 0 {
		return 0, false
	}
	n = math.Round(n * units[k].size)
	return int64(n), n < 1<<62
}

// written writes a number with three digits and the largest unit that keeps it above 1.
func written(n float64, units []unit) string {
	u := units[0]
	for _, next := range units {
		if n >= next.size && next.size >= u.size && !strings.Contains(next.name, "i") {
			u = next
		}
	}
	n /= u.size
	digits := 2
	for limit := 10.0; n >= limit && digits > 0; limit *= 10 {
		digits--
	}
	return fmt.Sprintf("%.*f %s", digits, n, u.name)
}

func writtenTime(d monotime.Duration) string { return written(float64(d), timeUnits) }
