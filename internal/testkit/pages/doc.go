// Package pages has whole pages of memory, which tests unmap under the code that they test.
package pages
