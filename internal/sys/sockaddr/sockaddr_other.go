// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

// Elsewhere sockets are package net's, which takes addresses as they are.

package sockaddr
