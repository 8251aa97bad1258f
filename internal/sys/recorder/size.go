// SPDX-License-Identifier: BSD-2-Clause

package recorder

import (
	"fmt"
	"strconv"
	"strings"

	"verbena/internal/wire/pcap"
)

// MinBytes and MaxBytes bound a ring. Its size is an int of 32 bits on some systems.
const (
	MinBytes = pcap.MinRing
	MaxBytes = 1 << 30
)

// ParseSize parses the size of a ring: a number of bytes, or of K, M or G of them.
func ParseSize(s string) (int, error) {
	unit := 1
	digits := strings.TrimRight(s, "KMG")
	if len(digits) == len(s)-1 {
		unit = 1 << (10 * (1 + strings.Index("KMG", s[len(digits):])))
	} else if len(digits) != len(s) {
		digits = ""
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n*uint64(unit) < MinBytes || n*uint64(unit) > MaxBytes {
		return 0, fmt.Errorf("%q: must be a size from 1M to 1G, such as 64M", s)
	}
	return int(n) * unit, nil
}
