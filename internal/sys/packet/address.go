// SPDX-License-Identifier: BSD-2-Clause

package packet

// Address selects frames by their destination: those of one address, or Any or AnyGroup.
type Address struct {
	MAC   [6]byte
	which uint8
}

// Destinations beside one address.
var (
	Any      = Address{which: 1}
	AnyGroup = Address{which: 2}
)
