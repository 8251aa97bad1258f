// SPDX-License-Identifier: BSD-2-Clause

// Package pages has whole pages of memory, which tests unmap under the code that they test.
package pages
