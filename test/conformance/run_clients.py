"""Runs the suites of official Python clients against the compiled server.

Ends with `N passed, N failed`. Names of suites (`test_http`, ...) as arguments run only those.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))


def main(names: list[str]) -> int:
    loader = unittest.TestLoader()
    folder = Path(__file__).resolve().parent / "clients"
    found = sorted(path.stem for path in folder.glob("test_*.py"))
    suite = loader.loadTestsFromNames([f"clients.{name}" for name in names or found])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    # A module or class that is skipped or fails as a whole is listed, but is no test that ran; the
    # parts of a test (subTest) are listed each.
    listed = [*result.failures, *result.errors, *result.skipped]
    tests = {getattr(test, "test_case", test) for test, _ in listed}
    unsuccessful = sum(isinstance(test, unittest.TestCase) for test in tests)
    passed = result.testsRun - unsuccessful - len(result.unexpectedSuccesses)
    print(f"\n{passed} passed, {failed} failed")
    return 0 if failed == 0 and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
