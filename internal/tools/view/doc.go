// SPDX-License-Identifier: BSD-2-Clause

// Package view is "verbena view": captures as a page to look at. Package timeline finds what is in
// them; the page draws it.
//
// The page is one file without anything to load: a Content-Security-Policy forbids it. Scripts and
// styles are allowed by their hashes. All that comes from a capture is in blocks of base64, and
// reaches the page as text, never as markup.
package view
