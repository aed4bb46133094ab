"""Products of torch's programs: 16 bits stay 16 bits, and are rounded once."""

from __future__ import annotations

import pytest
import torch
import tvm
from torch import nn
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

from tests.frontends.huggingface.decoder_runs import TARGET
from tests.kernels.helpers import scheduled
from tvm_hetero.frontends.torch.float16_products import product_converters
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

SHAPES = {"mm": [(3, 8), (8, 5)], "bmm": [(2, 3, 8), (2, 8, 5)], "matmul": [(2, 3, 8), (8, 5)],
          "addmm": [(5,), (3, 8), (8, 5)], "baddbmm": [(2, 3, 5), (2, 3, 8), (2, 8, 5)],
          "linear": [(2, 3, 8), (5, 8), (5,)], "linear without bias": [(3, 8), (5, 8)]}  # fmt: skip


class Product(nn.Module):
    """One product; those that add something do it with factors."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, *given):
        if self.name.startswith("linear"):
            return nn.functional.linear(*given)
        factors = {"alpha": 0.5, "beta": 3} if "add" in self.name else {}
        return getattr(torch, self.name)(*given, **factors)


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", SHAPES)
def test_products_are_those_of_torch(name, kind):
    generator, dtype = torch.Generator().manual_seed(1), getattr(torch, kind)
    given = [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES[name]]
    program = torch.export.export(Product(name), tuple(given))
    mod = from_exported_program(
        program, run_ep_decomposition=False, unwrap_unit_return_tuple=True,
        custom_convert_map=product_converters(),
    )  # fmt: skip
    main = scheduled(LowerToTasks([TARGET])(mod), TARGET)
    vm = relax.VirtualMachine(tvm.compile(main, TARGET, tir_pipeline=PIPELINE), tvm.cpu())
    got = torch.from_dlpack(vm["main"](*(tvm.runtime.from_dlpack(x) for x in given)))
    assert got.dtype == dtype
    torch.testing.assert_close(got, Product(name)(*given))
