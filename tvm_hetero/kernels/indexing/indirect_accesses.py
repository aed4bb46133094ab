"""Where a kernel reads or writes at places that other data tell.

A row of a table that a token chooses is such a place, and what scatters write. TVM reads and writes
there whatever the number is. `indirect_accesses` finds all of them in a kernel that is not
scheduled, except for those that are inside of their tensor for any data: clamped ones, remainders,
those under a condition that says so.

An index is written in terms of loops and of the kernel's parameters where that can be done, by
putting in the place of an intermediate value what it is computed by (`ahead`). So it can be looked
at before the kernel begins, whatever becomes of the intermediate value when it is scheduled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import Call, TensorLoad
from tvm_ffi import WalkResult

from tvm_hetero.kernels.indexing.in_bounds import in_bounds

if TYPE_CHECKING:
    Expr = Any

_CHOICE = "if_then_else"
# Nodes of an expression that takes the place of an intermediate value.
_LARGEST = 500


@dataclass(frozen=True, eq=False)
class Access:
    """A place that data tell.

    Attributes
    ----------
    tensor, axis : what is read or written there, and by which of its axes.
    index : the place on that axis.
    loops : variables of loops, and their extents, that the index needs; outermost first.
    conditions : only where all of them hold is anything read or written.
    ahead : whether index and conditions need no more than these loops and parameters that the
        kernel does not write.
    statement : where it happens.
    """

    tensor: tirx.Var
    axis: int
    index: Expr
    loops: tuple[tuple[tirx.Var, int], ...]
    conditions: tuple[Expr, ...]
    ahead: bool
    statement: tirx.Stmt

    @property
    def length(self) -> int:
        """The extent of the axis."""
        return int(self.tensor.ty.shape[self.axis])


def indirect_accesses(func: tirx.PrimFunc) -> list[Access]:
    """The places that a kernel reads or writes as data tell, if they may be outside.

    Parameters
    ----------
    func
        A kernel that is not scheduled.

    Returns
    -------
    list
        In the order in which they happen: an index that is looked up itself comes first.
    """
    if not has_indirect_accesses(func):
        return []
    finder = _Finder(func)
    finder.statement(func.body, _Context())
    return finder.found


def has_indirect_accesses(func: tirx.PrimFunc) -> bool:
    """Whether there may be such places at all, inside of bounds or not; most kernels have none."""
    found = False

    def meet(indices: Sequence[Expr]) -> None:
        nonlocal found
        found = found or any(_told(index) for index in indices)

    def bind(_: tirx.Bind) -> None:
        nonlocal found
        found = True

    tvm_ffi.structural_walk(
        func.body,
        [
            (TensorLoad, lambda load: meet(load.indices)),
            (tirx.BufferStore, lambda store: meet(store.indices)),
            (tirx.Bind, bind),
        ],
    )
    return found


def loads_in(expr: Expr) -> list[TensorLoad]:
    """The loads in an expression, each once."""
    found: list[TensorLoad] = []

    def meet(load: TensorLoad) -> None:
        if not any(tvm_ffi.structural_equal(load, other) for other in found):
            found.append(load)

    tvm_ffi.structural_walk(expr, (TensorLoad, meet))
    return found


def substitute(expr: Expr, values: dict[tirx.Var, Expr]) -> Expr:
    """An expression with other expressions for some variables."""
    if not values:
        return expr
    return tvm_ffi.structural_map(expr, (tirx.Var, lambda var: values.get(var, var)))


def _told(index: Expr) -> bool:
    if isinstance(index, tirx.Var | tirx.IntImm):
        return False
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(index, (TensorLoad, found.append))
    return bool(found)


@dataclass(frozen=True)
class _Context:
    """What stands around: loops (an extent that is not constant is -1) and conditions.

    `facts` are conditions under which a value is used, though it may be computed otherwise too.
    """

    loops: tuple[tuple[tirx.Var, int], ...] = ()
    conditions: tuple[Expr, ...] = ()
    facts: tuple[Expr, ...] = ()
    uncertain: bool = False
    where: tirx.Stmt | None = None

    def inside(self, var: tirx.Var, extent: Expr) -> _Context:
        fixed = int(extent) if isinstance(extent, tirx.IntImm) else -1
        loops = (*self.loops, (var, fixed))
        return replace(self, loops=loops, uncertain=self.uncertain or fixed < 0)

    def given(self, condition: Expr) -> _Context:
        return replace(self, conditions=(*self.conditions, condition))

    def assuming(self, fact: Expr) -> _Context:
        return replace(self, facts=(*self.facts, fact))

    def at(self, statement: tirx.Stmt) -> _Context:
        return replace(self, where=statement)


@dataclass
class _Finder:
    """Walks over a kernel in the order in which it runs."""

    func: tirx.PrimFunc
    found: list[Access] = field(default_factory=list)
    # What variables and intermediate values are, in terms of loops and loads.
    values: dict[tirx.Var, Expr] = field(default_factory=dict)
    computed: dict[tirx.Var, tuple[list[Expr], Expr]] = field(default_factory=dict)
    stores: dict[tirx.Var, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def count(store: tirx.BufferStore) -> None:
            self.stores[store.buffer] = self.stores.get(store.buffer, 0) + 1

        tvm_ffi.structural_walk(self.func.body, (tirx.BufferStore, count))

    def statement(self, node: tirx.Stmt, context: _Context) -> None:
        """Look at a statement."""
        context = context.at(node)
        if isinstance(node, tirx.SeqStmt):
            for each in node.seq:
                self.statement(each, context)
        elif isinstance(node, tirx.For):
            self.expression(node.extent, context)
            self.statement(node.body, context.inside(node.loop_var, _extent(node)))
        elif isinstance(node, s_tir.SBlockRealize):
            self._block(node, context)
        elif isinstance(node, tirx.IfThenElse):
            self._branch(node, context)
        elif isinstance(node, tirx.While):
            self.expression(node.condition, context)
            self.statement(node.body, replace(context, uncertain=True))
        elif isinstance(node, tirx.AttrStmt):
            self.statement(node.body, context)
        elif isinstance(node, tirx.BufferStore):
            self._store(node, context)
        elif isinstance(node, tirx.Bind):
            self.expression(node.value, context)
            self.values[node.var] = self.resolved(node.value)
        elif isinstance(node, tirx.Evaluate):
            self.expression(node.value, context)

    def _block(self, node: s_tir.SBlockRealize, context: _Context) -> None:
        for var, value in zip(node.block.iter_vars, node.iter_values, strict=True):
            self.values[var.var] = self.resolved(value)
        if not isinstance(node.predicate, tirx.IntImm):
            context = context.given(self.resolved(node.predicate))
        if node.block.init is not None:
            self.statement(node.block.init, context)
        self.statement(node.block.body, context)

    def _branch(self, node: tirx.IfThenElse, context: _Context) -> None:
        self.expression(node.condition, context)
        condition = self.resolved(node.condition)
        self.statement(node.then_case, context.given(condition))
        if node.else_case is not None:
            self.statement(node.else_case, context.given(tirx.Not(condition)))

    def _store(self, node: tirx.BufferStore, context: _Context) -> None:
        for expr in (node.value, *node.indices):
            self.expression(expr, context)
        self._access(node.buffer, node.indices, context)
        indices = [self.resolved(index) for index in node.indices]
        value = self.resolved(node.value)
        if self.stores[node.buffer] == 1 and not context.conditions and not context.uncertain:
            known = _is_plain(indices, node.buffer) and not _reads(value, node.buffer)
            if known and _size(value) <= _LARGEST:
                self.computed[node.buffer] = indices, value

    def expression(self, expr: Expr, context: _Context) -> None:
        """Look at the loads in an expression."""

        def choice(call: Call) -> WalkResult | None:
            if not str(getattr(call.op, "name", "")).endswith(_CHOICE):
                return None
            condition, then, other = call.args
            self.expression(condition, context)
            said = self.resolved(condition)
            self.expression(then, context.given(said))
            self.expression(other, context.given(tirx.Not(said)))
            return WalkResult.SKIP

        def select(node: tirx.Select) -> WalkResult:
            said = self.resolved(node.condition)
            self.expression(node.condition, context)
            self.expression(node.true_value, context.assuming(said))
            self.expression(node.false_value, context.assuming(tirx.Not(said)))
            return WalkResult.SKIP

        def load(node: TensorLoad) -> WalkResult:
            for index in node.indices:
                self.expression(index, context)
            self._access(node.source, node.indices, context)
            return WalkResult.SKIP

        visitors = [(Call, choice), (tirx.Select, select), (TensorLoad, load)]
        tvm_ffi.structural_walk(expr, visitors, order="pre")

    def resolved(self, expr: Expr) -> Expr:
        """The expression in terms of loops' variables, and of parameters where that can be."""

        def load(node: TensorLoad) -> Expr:
            if node.source not in self.computed:
                return node
            indices, value = self.computed[node.source]
            places = zip(indices, node.indices, strict=True)
            return substitute(value, {i: at for i, at in places if isinstance(i, tirx.Var)})

        expr = substitute(expr, self.values)
        return tvm_ffi.structural_map(expr, (TensorLoad, load))

    def _access(self, tensor: tirx.Var, indices: Sequence[Expr], context: _Context) -> None:
        for axis, index in enumerate(indices):
            place = self.resolved(index)
            length = tensor.ty.shape[axis]
            if not _told(place) or not isinstance(length, tirx.IntImm):
                continue
            given = (*context.conditions, *context.facts)
            if not in_bounds(place, int(length), context.loops, given):
                self._add(tensor, axis, index, place, context)

    def _add(
        self, tensor: tirx.Var, axis: int, index: Expr, place: Expr, context: _Context
    ) -> None:
        ahead = self._is_ahead(place, context)
        needed = _variables([place, *context.conditions])
        assert context.where is not None
        access = Access(
            tensor,
            axis,
            place if ahead else index,
            tuple((var, extent) for var, extent in context.loops if var in needed),
            context.conditions,
            ahead,
            context.where,
        )
        if not any(_same(access, other) for other in self.found):
            self.found.append(access)

    def _is_ahead(self, place: Expr, context: _Context) -> bool:
        exprs = [place, *context.conditions]
        loads = [load for expr in exprs for load in loads_in(expr)]
        parameters = set(self.func.params)
        kept = all(ld.source in parameters and ld.source not in self.stores for ld in loads)
        loops = {var for var, _ in context.loops}
        others = _variables(exprs) - loops
        return kept and not others and not context.uncertain


def _extent(loop: tirx.For) -> Expr:
    """The extent of a loop that begins at 0."""
    at_zero = isinstance(loop.min, tirx.IntImm) and int(loop.min) == 0
    return loop.extent if at_zero else loop.min + loop.extent


def _variables(exprs: Sequence[Expr]) -> set[tirx.Var]:
    """Variables in expressions, but for tensors (whose types may name variables of their own)."""
    found: set[tirx.Var] = set()

    def load(node: TensorLoad) -> WalkResult:
        found.update(_variables(list(node.indices)))
        return WalkResult.SKIP

    for expr in exprs:
        tvm_ffi.structural_walk(expr, [(TensorLoad, load), (tirx.Var, found.add)], order="pre")
    return found


def _is_plain(indices: Sequence[Expr], buffer: tirx.Var) -> bool:
    """Whether a store's indices are loops' variables, each once, or the only place there is."""
    shape = buffer.ty.shape
    rest = [i for i, n in zip(indices, shape, strict=True) if not _is_only(i, n)]
    return all(isinstance(i, tirx.Var) for i in rest) and len(set(rest)) == len(rest)


def _is_only(index: Expr, extent: Expr) -> bool:
    return isinstance(index, tirx.IntImm) and isinstance(extent, tirx.IntImm) and int(extent) == 1


def _reads(value: Expr, buffer: tirx.Var) -> bool:
    return any(load.source.same_as(buffer) for load in loads_in(value))


def _size(expr: Expr) -> int:
    count = 0

    def meet(_: Any) -> None:
        nonlocal count
        count += 1

    tvm_ffi.structural_walk(expr, meet)
    return count


def _same(one: Access, other: Access) -> bool:
    same = one.tensor.same_as(other.tensor) and one.axis == other.axis and one.ahead == other.ahead
    if not same or (not one.ahead and not one.statement.same_as(other.statement)):
        return False
    return bool(
        tvm_ffi.structural_equal(one.index, other.index)
        and tvm_ffi.structural_equal(list(one.conditions), list(other.conditions))
    )
