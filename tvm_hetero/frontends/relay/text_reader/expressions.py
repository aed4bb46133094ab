"""Expressions in a Relay text, and the bodies that they make.

    body       (%name = expression; | let %name: type = expression;)*  expression
    expression atom (arguments | .number)*
    atom       %name  @name  number  True  meta[class][number]  operator  (expression, ...)
               fn (params) -> type { body }
    arguments  (expression, ..., name=value, ...)

A ``%name =`` gives a name to an expression, a ``let`` binds a variable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from tvm_hetero.frontends.relay.core.arrays import dtype_of
from tvm_hetero.frontends.relay.core.limits import RelayLimits
from tvm_hetero.frontends.relay.core.program import (
    Constant,
    Expr,
    Function,
    GlobalName,
    Let,
    Operator,
    ProgramItem,
    RelayCall,
    RelayTensorType,
    Tuple,
    Unsupported,
    Var,
)
from tvm_hetero.frontends.relay.text_reader.lexer import SourceText, Token
from tvm_hetero.frontends.relay.text_reader.values import ParsedValues, number_of
from tvm_hetero.util.untrusted_names import printable

_CONTROL = ("if", "match", "match?", "ref", "ref_read", "ref_write")


class Expressions(ParsedValues, ABC):
    """Reads expressions; `scopes` are the names that they may refer to, the innermost last."""

    def __init__(
        self,
        source: SourceText,
        words: list[Token],
        metadata: dict[str, list[Any]],
        limits: RelayLimits,
    ) -> None:
        super().__init__(source, words, metadata, limits)
        self.scopes: list[dict[str, Expr]] = [{}]

    @abstractmethod
    def function(self) -> Function:
        """The rest of a function, from its parameters on."""

    # ------------------------------------------------------------------ bodies

    def statements(self) -> Expr:
        """Names, lets and a last expression; the lets become one chain around it."""
        lets: list[tuple[Var, Expr]] = []
        while True:
            if self.accept("let"):
                lets.append(self._let())
            elif self.word.kind == "local" and self._is_binding():
                name = self.take()
                self.expect("=")
                self.scopes[-1][name.text] = self.expression()
                self.accept(";")
            else:
                break
        body = self.expression()
        self.accept(";")
        for var, value in reversed(lets):
            body = Let(var, value, body)
        return body

    def _is_binding(self) -> bool:
        following = self.words[self.at + 1]
        return following.kind == "sign" and following.text == "="

    def _let(self) -> tuple[Var, Expr]:
        name = self.take()
        if name.kind != "local":
            raise self.error("expected a variable after 'let'", name)
        kind = self.skip_types()
        kind = self.type() if self.accept(":") else kind
        kind = self.skip_types() or kind
        var = Var(name.text[1:], kind)
        self.expect("=")
        value = self.expression()
        self.expect(";")
        self.scopes[-1][name.text] = var
        return var, value

    # ------------------------------------------------------------------ expressions

    def expression(self) -> Expr:
        """An atom and what is applied to it."""
        self.deeper()
        start = self.word
        expr = self._atom()
        while True:
            kind = self.skip_types()
            if kind is not None and isinstance(expr, RelayCall) and expr.type is None:
                expr.type = kind
            if (
                kind is not None
                and isinstance(expr, Constant)
                and isinstance(kind, RelayTensorType)
            ):
                expr = self._retyped(expr, kind, start)
            if self.ahead("(") and not isinstance(expr, Constant | Tuple):
                expr = self._call(expr, start)
            elif self.word.kind == "item":
                expr = ProgramItem(expr, int(self.take().text[1:6]), self.source.where(start.at))
            else:
                self.depth -= 1
                return expr

    def _retyped(self, expr: Constant, kind: RelayTensorType, word: Token) -> Constant:
        """A number as what its comment says; arrays of the metadata have a type already."""
        if kind.shape == () and expr.value.shape == ():
            return Constant(expr.value.astype(dtype_of(kind.dtype)))
        if kind.shape != expr.value.shape:
            raise self.error(f"a constant of {list(expr.value.shape)} is called {kind}", word)
        return expr

    def _atom(self) -> Expr:
        word = self.take()
        if word.kind == "local":
            return self._variable(word)
        if word.kind == "global":
            return GlobalName(word.text[1:])
        if word.kind == "number":
            return Constant(np.asarray(*number_of(word)))
        if word.kind == "name":
            return self._named(word)
        if word.kind == "sign" and word.text == "(":
            return self._tuple()
        raise self.error(f"'{printable(word.text, 40)}' where an expression is expected", word)

    def _named(self, word: Token) -> Expr:
        if word.text in ("True", "False"):
            return Constant(np.asarray(word.text == "True"))
        if word.text == "fn":
            return self.function()
        if word.text == "meta":
            return self.meta(word)
        if word.text == "if":
            return self._if(word)
        if word.text in _CONTROL:
            raise self.error(
                f"'{word.text}' is not supported: a graph of tasks has neither control flow nor "
                "references; save the module with one fixed path", word
            )  # fmt: skip
        if word.text in ("inf", "nan"):
            return Constant(np.asarray(float(word.text), "float32"))
        return Operator(printable(word.text))

    def _if(self, word: Token) -> Expr:
        """``if (c) { a } else { b }``: read to its end, so that what follows can be listed too."""
        self.expect("(")
        self.expression()
        self.expect(")")
        for branch in ("", "else"):
            if branch:
                self.expect(branch)
            self.expect("{")
            self.statements()
            self.expect("}")
        return Unsupported("if", self.source.where(word.at))

    def _tuple(self) -> Expr:
        """``(a, b)``, ``(a,)``, ``()``; ``(a)`` is a alone, as is ``(let ...; a)``."""
        if self.ahead("let"):  # a let that is used twice, in parentheses of its own
            body = self.statements()
            self.expect(")")
            return body
        fields = []
        comma = False
        while not self.accept(")"):
            fields.append(self.expression())
            comma = self.accept(",")
            if not comma and not self.ahead(")"):
                raise self.error(f"expected ',' or ')', got '{printable(self.word.text, 40)}'")
        return fields[0] if len(fields) == 1 and not comma else Tuple(fields)

    def _call(self, callee: Expr, start: Token) -> RelayCall:
        self.expect("(")
        args: list[Expr] = []
        attributes: dict[str, Any] = {}
        while not self.accept(")"):
            if self.word.kind == "name" and self._is_binding():
                self.attribute(attributes)
            else:
                args.append(self.expression())
            self.skip_types()
            if not self.ahead(")"):
                self.expect(",")
        name = getattr(callee, "name", "a function")
        where = f"{self.source.where(start.at)} ({printable(name)})"
        return RelayCall(callee, args, attributes, None, where)

    # ------------------------------------------------------------------ names

    def _variable(self, word: Token) -> Expr:
        """A name in scope; ``%x.0`` is the variable of that name, else a field of ``%x``."""
        name = word.text
        items: list[int] = []
        while len(items) <= self.limits.depth:
            for scope in reversed(self.scopes):
                if name in scope:
                    return self._fields(scope[name], items, word)
            name, dot, index = name.rpartition(".")
            if not dot or not index.isdigit() or len(index) > 5:
                raise self.error(f"{printable(word.text)} is not defined here", word)
            items.insert(0, int(index))
        raise self.error(f"more than {self.limits.depth} tuples within each other", word)

    def _fields(self, expr: Expr, items: list[int], word: Token) -> Expr:
        for index in items:
            expr = ProgramItem(expr, index, self.source.where(word.at))
        return expr
