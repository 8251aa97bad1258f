// SPDX-License-Identifier: BSD-2-Clause

// Package browser drives a headless Chromium for tests of pages: it loads one, evaluates
// expressions in it, moves its mouse and takes pictures. It speaks the DevTools protocol over a
// pair of pipes. Names lead the browser nowhere.
package browser
