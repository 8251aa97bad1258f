// SPDX-License-Identifier: BSD-2-Clause

//go:build !amd64

package mem

func preload(p *byte, n uintptr) {}
