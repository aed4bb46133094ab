"""Results that are counted by others: what stands on ``main``."""

from __future__ import annotations

from tests.models import dense
from tvm_hetero.passes.lengths import CountedResult, counted_results, lengths_attribute


def test_what_is_written_is_read_again() -> None:
    rows = [CountedResult(0, 1, 3), CountedResult(2, 0, 3)]
    main = dense(4, 4)["main"].with_attrs(lengths_attribute(rows))
    assert counted_results(main) == {0: rows[0], 2: rows[1]}


def test_a_function_of_fixed_sizes_bears_no_attribute() -> None:
    assert lengths_attribute([]) == {}
    assert counted_results(dense(4, 4)["main"]) == {}
