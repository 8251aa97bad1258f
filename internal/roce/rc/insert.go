// SPDX-License-Identifier: BSD-2-Clause

package rc

// insert returns s with v at index i, as slices.Insert does. That takes any number of values, and
// a program has 1.3 kB of it for each type.
func insert[T any](s []T, i int, v T) []T {
	s = append(s, v)
	copy(s[i+1:], s[i:])
	s[i] = v
	return s
}
