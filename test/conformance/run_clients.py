"""Runs the suites of official clients against the compiled server.

  run_clients.py                 all of the folder clients: tritonclient
  run_clients.py test_http ...   some of them
  run_clients.py kserve_client   all of another folder

Ends with `N passed, N failed`.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def modules(name: str) -> list[str]:
    if not (HERE / name).is_dir():
        return [f"clients.{name}"]
    return sorted(f"{name}.{path.stem}" for path in (HERE / name).glob("test_*.py"))


def main(names: list[str]) -> int:
    found = [module for name in names or ["clients"] for module in modules(name)]
    suite = unittest.TestLoader().loadTestsFromNames(found)
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
