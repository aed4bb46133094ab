from __future__ import annotations

from tvm_hetero.util.nearest import nearest


def test_nearest() -> None:
    assert nearest("litle", ["big", "little"]) == "; did you mean 'little'?"
    assert nearest("zzz", ["b", "a"]) == "; known: a, b"
    assert nearest(5, ["b"]) == "; known: b"
    assert nearest("x", []) == ""
    assert nearest("?", [f"n{i:02}" for i in range(20)]).endswith("n11, ...")


def test_names_in_a_hint_are_printable_and_short() -> None:
    assert nearest("zzz", ["a\x1b[2J", "b" * 200]).isprintable()
    assert nearest("b" * 1_000_000, ["b" * 200]) == f"; did you mean '{'b' * 80}'?"
    assert len(nearest("zzz", ["b" * 200])) < 100
