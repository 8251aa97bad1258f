#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pyverbs.sh DEVICE: the tests that python3-pyverbs ships, over a device.
set -e
mkdir tests
cp /usr/share/doc/rdma-core/tests/* tests
gunzip tests/*.gz
exec /usr/bin/python3 tests/run_tests.py --dev "$1" --port 1 --gid 0 -v
