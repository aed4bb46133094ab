"""exp, log, tanh, erf and the sigmoid as arithmetic that vectorises.

TVM leaves these functions to the C library, one call for each value. As
polynomials on registers they are many times as fast (`python -m benchmarks.kernels --family
elementwise,softmax` prints TVM's default and ONNX Runtime beside ours).

`expand` rewrites a scheduled kernel, so that rules and tuners see one operation where the model
has one. Each function binds its argument by ``Let`` and is computed in float32 (16-bit floats
are cast). No branch, no comparison that decides a memory access, no conversion of floats that
may be out of an integer's range: NaN and infinities take the same way as all others.

    exp      n = round(x / ln 2), r = x - n ln 2 in two steps (Cody and Waite), twice a polynomial
             of degree 7 in r (Cephes), times 2^(n - 1): n is 128 where the result is still finite.
             Results below 2^-125 are zero; a second factor for them costs an eighth of the time
    log      x = m 2^n with m in [sqrt(1/2), sqrt(2)), polynomial of degree 10 in m - 1 (Cephes)
    tanh     odd rational function of degrees 13 and 6 on [-7.9, 7.9] (Eigen), x itself near 0
    erf      |x| <= 0.93: odd polynomial; else 1 - exp(polynomial) (N. Juffa)
    sigmoid  1 / (1 + exp(-x))

Errors against float64 over all magnitudes, in units in the last place
(tests/kernels/tir/test_vector_math.py): exp 1, log 1, tanh 5 (7 without fused multiply-adds), erf
1.2, sigmoid 2; exp and sigmoid where the result is at least 2^-125.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

if TYPE_CHECKING:
    Expr = Any

_SIXTEEN_BITS = ("float16", "bfloat16")

# 1.5 * 2^23: adding it rounds a float to an integer that stands in its last bits.
_ROUND = 12582912.0
_ROUND_BITS = 0x4B400000
_LOG2_E = 1.44269504088896341
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_EXP_RANGE = (-87.4, 88.8)  # beyond it the result is 0 or infinite anyway
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
        5.0000001201e-1)  # fmt: skip

_SMALLEST_NORMAL = 1.17549435e-38
_SQRT_HALF_BITS = 0x3F3504F3
_ONE_BITS = 0x3F800000
_MANTISSA = 0x007FFFFF
_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip

_TANH_RANGE = 7.90531110763549805
_TANH_IS_ITSELF = 4e-4
_TANH_ODD = (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11,
             5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04,
             4.89352455891786e-03)  # fmt: skip
_TANH_EVEN = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03,
              4.89352518554385e-03)  # fmt: skip

NEAREST = "tirx.nearbyint"
"""What rounds to the nearest whole number, as TVM names it."""

_ERF_NEAR = 0.927734375
_ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
              1.28379166e-1)  # fmt: skip
_ERF_LARGE = (-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1,
              -6.34846687e-1, -1.28717512e-1)  # fmt: skip


def expand(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with every call that `FUNCTIONS` names replaced by arithmetic."""
    body = tvm_ffi.structural_map(func.body, (Call, _expand_call), order="pre")
    return func if body.same_as(func.body) else func.with_body(body)


def _expand_call(call: Call) -> Expr:
    if getattr(call.op, "name", "") == NEAREST:
        return _nearest(call)
    function = FUNCTIONS.get(getattr(call.op, "name", ""))
    dtype = str(call.ty.dtype) if function is not None else ""
    if function is None or dtype not in ("float32", *_SIXTEEN_BITS) or _weight(call) > MOST_WRITTEN:
        return call
    (argument,) = call.args
    if dtype == "float32":
        return _let(argument, function)
    wide = _let(tirx.Cast("float32", argument), function)
    return tirx.Cast(dtype, wide)


def _nearest(call: Call) -> Expr:
    """LLVM's own function for what TVM calls by a name of its own, with the same result.

    TVM's vectorizer meets a function that is inside of another one's rounded argument twice, and
    refuses the second time (Let).
    """
    (argument,) = call.args
    return tirx.call_llvm_pure_intrin(str(call.ty.dtype), "llvm.nearbyint", argument)


def written_weight(body: tirx.Stmt) -> int:
    """Occurrences of the innermost value of a body, as written by `expand`; see `MOST_WRITTEN`."""
    most = 1

    def visit(call: Call) -> Any:
        nonlocal most
        most = max(most, _weight(call))
        return tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(body, (Call, visit), order="pre")
    return most


def _weight(expr: Expr) -> int:
    """Occurrences of the innermost argument if every Let were written out.

    TVM's code generator does that, to know the bounds of each variable, and a function of a
    function of a function would take it minutes. Then the outermost stay calls.
    """
    inner = 1

    def visit(call: Call) -> Any:
        nonlocal inner
        if call.same_as(expr):
            return None
        inner = max(inner, _weight(call))
        return tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(expr, (Call, visit), order="pre")
    return inner * _WEIGHTS.get(getattr(expr.op, "name", ""), 1)


def _let(value: Expr, body: Callable[[Expr], Expr], dtype: str = "float32") -> Expr:
    var = tirx.Var("v", dtype)
    return tirx.Let(var, value, body(var))


def _real(value: float) -> Expr:
    return tirx.const(value, "float32")


def _whole(value: int) -> Expr:
    return tirx.const(value, "int32")


def _bits(value: Expr) -> Expr:
    return tirx.reinterpret("int32", value)


def _float(bits: Expr) -> Expr:
    return tirx.reinterpret("float32", bits)


def _horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Polynomial with the coefficient of the highest power first."""
    result = _real(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + _real(coefficient)
    return result


def _clamp(x: Expr, low: float, high: float) -> Expr:
    """``x`` within the range; NaN stays NaN, which Min and Max do not promise.

    Not by Select: TVM's analyser puts the values of Let into conditions, and where one condition
    contains another its simplifier takes minutes (gelu after silu).
    """
    for intrinsic, limit in (("llvm.minimum", high), ("llvm.maximum", low)):
        x = tirx.call_llvm_pure_intrin("float32", intrinsic, x, _real(limit))
    return x


def _exp(x: Expr) -> Expr:
    return _let(_clamp(x, *_EXP_RANGE), _exp_within)


def _exp_within(x: Expr) -> Expr:
    return _let(x * _real(_LOG2_E) + _real(_ROUND), lambda shifted: _exp_split(x, shifted))


def _exp_split(x: Expr, shifted: Expr) -> Expr:
    n = shifted - _real(_ROUND)
    rest = x - n * _real(_LN2_HIGH) - n * _real(_LN2_LOW)
    power = _let(rest, _exp_near)
    scale = tirx.shift_left(_bits(shifted) - _whole(_ROUND_BITS - 126), _whole(23))
    return power * _float(scale)


def _exp_near(r: Expr) -> Expr:
    """Twice e^r, for r within half of ln 2."""
    return _let(_horner(r, _EXP) * (r * r) + r + _real(1.0), lambda power: power + power)


def _log(x: Expr) -> Expr:
    subnormal = x < _real(_SMALLEST_NORMAL)
    scaled = tirx.Select(subnormal, x * _real(2.0**23), x)
    offset = tirx.Select(subnormal, _real(-23.0), _real(0.0))
    return _let(
        _bits(scaled) + _whole(_ONE_BITS - _SQRT_HALF_BITS),
        lambda bits: _log_special(x, _log_split(bits, offset)),
        "int32",
    )


def _log_split(bits: Expr, offset: Expr) -> Expr:
    exponent = tirx.shift_right(bits, _whole(23)) - _whole(127)
    mantissa = _float(tirx.bitwise_and(bits, _whole(_MANTISSA)) + _whole(_SQRT_HALF_BITS))
    return _let(
        mantissa - _real(1.0),
        lambda m: _let(
            tirx.Cast("float32", exponent) + offset,
            lambda n: _log_sum(m, n),
        ),
    )


def _log_sum(m: Expr, n: Expr) -> Expr:
    square = m * m
    tail = _horner(m, _LOG) * m * square + n * _real(_LN2_LOW) - square * _real(0.5)
    return n * _real(_LN2_HIGH) + (m + tail)


def _log_special(x: Expr, value: Expr) -> Expr:
    """Zero, negative numbers, NaN and infinity have no mantissa in the range."""
    infinity = tirx.infinity("float32")
    value = tirx.Select(x < infinity, value, x)  # infinity and NaN
    value = tirx.Select(x == _real(0.0), -infinity, value)
    return tirx.Select(x < _real(0.0), _float(_whole(0x7FC00000)), value)


def _tanh(x: Expr) -> Expr:
    return _let(
        _clamp(x, -_TANH_RANGE, _TANH_RANGE),
        lambda c: _let(
            c * c,
            lambda s: tirx.Select(
                s < _real(_TANH_IS_ITSELF**2),
                x,
                c * _horner(s, _TANH_ODD) / _horner(s, _TANH_EVEN),
            ),
        ),
    )


def _sigmoid(x: Expr) -> Expr:
    one = _real(1.0)
    return one / (one + _let(_real(0.0) - x, _exp))


def _erf(x: Expr) -> Expr:
    return _let(tirx.abs(x), lambda t: _let(_erf_far(t), lambda far: _erf_choose(x, t, far)))


def _erf_far(t: Expr) -> Expr:
    return _real(1.0) - _let(_horner(t, _ERF_LARGE) * t - t, _exp)


def _erf_choose(x: Expr, t: Expr, far: Expr) -> Expr:
    sign = tirx.bitwise_and(_bits(x), _whole(-(1 << 31)))
    signed = _float(tirx.bitwise_or(_bits(far), sign))
    near = _let(x * x, lambda s: _horner(s, _ERF_SMALL) * x + x)
    return tirx.Select(t > _real(_ERF_NEAR), signed, near)


FUNCTIONS: dict[str, Callable[[Expr], Expr]] = {
    "tirx.exp": _exp,
    "tirx.log": _log,
    "tirx.tanh": _tanh,
    "tirx.erf": _erf,
    "tirx.sigmoid": _sigmoid,
}

# How often each function's argument occurs when its Lets are written out, about.
_WEIGHTS = {"tirx.exp": 25, "tirx.log": 40, "tirx.tanh": 25, "tirx.erf": 200, "tirx.sigmoid": 25}
# A kernel in which functions are nested deeper is not to be made: it takes seconds to compile.
MOST_WRITTEN = 30_000
