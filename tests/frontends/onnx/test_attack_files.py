"""Files that crashed, hung or filled the memory of an earlier commit: refused, by the node.

Each is read in a child that may use a gigabyte; what it died of stands beside its name.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz.limited import REFUSED, judge
from tvm_hetero.frontends.onnx import from_onnx

FOLDER = Path(__file__).parents[2] / "data" / "faults"
# File -> what its refusal says. Which of our limits a crash or a hang meets first is the machine's.
EXPECTED = {
    "concat_double": r"node 17 \(Concat\) would make 536870912 bytes of constants",
    "concat_many": r"node 0 \(Concat\) cannot be taken",  # SIGSEGV
    "cos_neg_8g_x8": r"node 1 \(Neg\) would make 8589934592 bytes of constants",
    "einsum2": r"node 0 \(Einsum\) cannot be taken",  # no end
    "ops_10091": r"node 0 \(Concat\) cannot be taken",  # SIGSEGV
    "ops_16332": r"node 0 \(Concat\) cannot be taken",  # SIGSEGV
    "ops_18373": r"node 0 \(GatherND\) cannot be taken",  # SIGSEGV
    "ops_2239": r"node 0 \(GatherND\) cannot be taken",  # 4.9 GB
    "ops_2240": r"output 'o0' to be float32 .* make it int32",
    "ops_2606": r"node 0 \(Concat\) cannot be taken",  # SIGSEGV
    "ops_2909": r"node 0 \(Concat\) does not fit its operands: .*\(bool\)\. Where",  # SIGSEGV
    "ops_3081": r"node 0 \(Einsum\) does not fit its operands",  # SIGSEGV
    "ops_5855": r"node 0 \(ConcatFromSequence\) reads a sequence",  # no end
    "ops_6536": r"node 0 \(Einsum\) cannot be taken",  # SIGSEGV
    "ops_7452": r"node 0 \(Concat\) does not fit its operands",  # SIGSEGV
    "ops_9803": r"node 0 \(Einsum\) does not fit its operands",  # SIGSEGV
    "repro_proto_1395": r"node 7 \(Div\) does not fit its operands",  # SIGSEGV
    "repro_proto_635": r"node 5 \(Split\) cannot be taken",  # SIGABRT
}
# Of wall time, so many times what they take: others may have the machine meanwhile.
SECONDS = 120.0


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_it_is_refused_and_the_node_named(name: str) -> None:
    verdict = judge(lambda: from_onnx(FOLDER / f"{name}.onnx"), SECONDS)
    assert verdict.status == REFUSED, verdict.told
    assert re.search(EXPECTED[name], verdict.told), verdict.told


def test_all_files_are_tried() -> None:
    assert {path.stem for path in FOLDER.glob("*.onnx")} == set(EXPECTED)
