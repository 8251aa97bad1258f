# SPDX-License-Identifier: BSD-2-Clause
"""run-pyverbs.py TESTS LEAST [OPTION...]: runs the tests of rdma-core in the folder TESTS, with the
options of its run_tests.py. It prints how many passed, and each reason for which tests skipped
themselves, and fails if one failed or fewer than LEAST passed."""
import collections
import importlib.util
import os
import sys
import unittest

folder, least = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]
device = sys.argv[sys.argv.index("--dev") + 1]

sys.path[0] = folder
spec = importlib.util.spec_from_file_location("tests", os.path.join(folder, "__init__.py"))
tests = importlib.util.module_from_spec(spec)
sys.modules["tests"] = tests
spec.loader.exec_module(tests)

# The module that the tests ask, and not another copy of it.
from args_parser import parser  # noqa: E402

parser.parse_args()
result = unittest.main(module=tests, exit=False).result

failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
passed = result.testsRun - failed - len(result.skipped)
print(f"pyverbs: {device}: of {result.testsRun} tests {passed} passed, "
      f"{len(result.skipped)} were skipped, {failed} failed", flush=True)
for reason, count in collections.Counter(reason for _, reason in result.skipped).most_common():
    print(f"{count:5} skipped: {reason}")
if failed:
    sys.exit(f"pyverbs: {device}: {failed} tests failed")
if passed < least:
    sys.exit(f"pyverbs: {device}: {passed} tests passed, and {least} must")
