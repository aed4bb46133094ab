"""The executor's C++ tests (tests/cpp), with sanitizers watching memory, arithmetic, threads."""

from __future__ import annotations

import pytest

from tests.cpp.cpp_build import ROOT, cmake_build, run

FOLDER = ROOT / "build" / "cpp-tests"
PROGRAMS = ["cpp_tests_address", "cpp_tests_thread"]
# A report ends the program with an error.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:check_initialization_order=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
}


@pytest.fixture(scope="module")
def built() -> None:
    cmake_build(ROOT, FOLDER, PROGRAMS, TVM_HETERO_OUTPUT_DIR=str(FOLDER))


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_reported(program):
    passed = run(str(FOLDER / program), **OPTIONS)
    assert passed.count("ok ") > 25
