// SPDX-License-Identifier: BSD-2-Clause

// Package chart draws lines as SVG. A browser shows them light or dark, as the reader prefers.
package chart
