//go:build !linux

// Elsewhere sockets are package net's, which takes addresses as they are.

package sockaddr
