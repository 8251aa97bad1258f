// SPDX-License-Identifier: BSD-2-Clause

package cli

// A Range bounds the number of an option.
type Range struct {
	Option string // as the user writes it, such as --size
	Value  int
	Least  int
	Most   int    // 0: there is no bound
	Unit   string // such as bytes; may be empty
}

// PortRange returns the bounds of a TCP port.
func PortRange(option string, port int) Range { return Range{option, port, 1, 65535, ""} }

// GIDRange returns the bounds of a GID index, unless it is AnyGID.
func GIDRange(option string, index int) Range {
	if index == AnyGID {
		index = 0
	}
	return Range{option, index, 0, 255, ""}
}

// CheckRanges returns an error for the first number that is out of its range.
func CheckRanges(list ...Range) error {
	for _, r := range list {
		unit := r.Unit
		if unit != "" {
			unit = " " + unit
		}
		switch {
		case r.Most == 0 && r.Value < r.Least:
			return Usagef("%s %d: at least %d%s", r.Option, r.Value, r.Least, unit)
		case r.Most != 0 && (r.Value < r.Least || r.Value > r.Most):
			return Usagef("%s %d: it must be %d to %d%s", r.Option, r.Value, r.Least, r.Most, unit)
		}
	}
	return nil
}
