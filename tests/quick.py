"""The quick tests (`make test-quick`): the scheduling half, for which no kernel is compiled.

    python -m tests.quick [options and paths of pytest]

They are the files of `QUICK`, less what is marked as slow (it takes seconds by itself) or alone,
with a quarter of the examples of property-based tests. They need none of `PEERS`, which
`make test` installs to compare with: this file is a plugin of pytest too, with which none of those
can be imported, whether it is installed or not. `tests/test_quick.py` says so without running them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder

import pytest
from hypothesis import settings

# Folders and files, all of them below the TVM line but for those that import TVM and build nothing.
QUICK = (
    "tests/bounds", "tests/check", "tests/generation", "tests/planning", "tests/platform",
    "tests/problem", "tests/report", "tests/solvers", "tests/util", "tests/views", "tests/zoo",
    "tests/cli/verbs/test_check.py", "tests/cli/verbs/test_choose.py",
    "tests/cli/verbs/test_plan.py",
    "tests/cli/verbs/test_schedule.py", "tests/cli/verbs/test_share.py",
    "tests/cli/verbs/test_show.py",
    "tests/cli/verbs/test_simulate.py", "tests/cli/verbs/test_zoo.py",
    "tests/passes/test_lowering_ir.py", "tests/passes/test_placing_ir.py",
    "tests/passes/test_steps_and_states_ir.py",
    "tests/test_floors.py", "tests/test_libinfo.py", "tests/test_public_api.py",
    "tests/test_quick.py",
)  # fmt: skip
# What `make setup` does not install; `make peers` does.
PEERS = frozenset(
    {"cloudpickle", "psutil", "ray", "tokenizers", "torch", "tornado", "transformers"}
)
OPTIONS = ("-q", "-p", "tests.quick", "-m", "not alone and not slow", "--dist", "loadfile")
_EXAMPLES = 10


class Missing(MetaPathFinder):
    """Finds no peer, as if it were not installed."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Refuse peers; of everything else this knows nothing.

        Raises
        ------
        ModuleNotFoundError
            If it is a peer, or in one.
        """
        if fullname.partition(".")[0] in PEERS:
            raise ModuleNotFoundError(f"No module named {fullname!r} (quick tests)", name=fullname)


def pytest_configure() -> None:
    """Before anything is collected; tests/conftest.py has made its profile by then."""
    sys.meta_path.insert(0, Missing())
    settings.register_profile("quick", settings.default, max_examples=_EXAMPLES)
    settings.load_profile("quick")


def main(given: Sequence[str]) -> int:
    """Run them, or the paths that are given, as quick tests."""
    paths = [] if any(not word.startswith("-") and "tests" in word for word in given) else QUICK
    return int(pytest.main([*OPTIONS, *given, *paths]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
