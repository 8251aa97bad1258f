// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// A Selection says which devices a program finds that looks for devices, and in
// which order: by kind or by name.
type Selection []string

// ParseSelection reads kinds and names with commas between. An empty text selects RoCEv2, which
// programs are written for.
func ParseSelection(text string) Selection {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
	if len(words) == 0 {
		return Selection{string(KindRoCE)}
	}
	return words
}

// place returns the number of the first word that means a device, or -1.
func (s Selection) place(d *Info) int {
	return slices.IndexFunc(s, func(word string) bool {
		return word == string(d.Kind) || word == d.Name
	})
}

// Has reports whether a device is selected.
func (s Selection) Has(d *Info) bool { return s.place(d) >= 0 }

// List returns the devices selected: by the words, and for each as All has them.
func (s Selection) List() ([]Info, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(d Info) bool { return !s.Has(&d) })
	slices.SortStableFunc(all, func(a, b Info) int { return s.place(&a) - s.place(&b) })
	return all, nil
}

// Kinds returns the kinds of the words, in their order.
func (s Selection) Kinds() (out []Kind) {
	for _, word := range s {
		kind, _, _ := strings.Cut(word, "_")
		kind = strings.TrimRight(kind, "0123456789") // a link has no interface, but a number
		if k := Kind(kind); slices.Contains(kinds, k) && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// KindNames returns the kinds that this system has.
func KindNames() (names []string) {
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return names
}

// Check refuses a word that is neither a kind nor a device.
func (s Selection) Check() error {
	all, err := All()
	if err != nil {
		return err
	}
	for _, word := range s {
		known := slices.Contains(kinds, Kind(word)) || slices.ContainsFunc(all, func(d Info) bool {
			return d.Name == word
		})
		if !known {
			return &Error{Arg: "device " + quote(word),
				Why: fmt.Sprintf("neither a kind, of %v, nor a device; %s", kinds,
					thereAre(all)), Err: syscall.ENODEV}
		}
	}
	return nil
}
