// SPDX-License-Identifier: BSD-2-Clause

// Package ib is the vocabulary of RDMA verbs: the numbers, enumerations and attribute records
// that the InfiniBand Architecture Specification and rdma-core name, as Go values.
//
// It has no objects. Those of packages verbs and rdmacm take and return its values, on every
// transport. Numeric values are those of <infiniband/verbs.h>, so that the C libraries can pass
// them through.
//
// Distinct kinds of number are distinct types: a QPN is not a PSN, and an LKey is not an RKey.
// Sequence numbers wrap, and compare only by methods.
package ib
