"""A Relay program in text (``mod.astext()``, version 0.0.5) to a `Program`.

    program    definition*  expression?  metadata?
    definition def @name(params) -> type { body }
    params     %name: type, ...  name=value, ...            (attributes of the function)
    body       (%name = expression; | let %name: type = expression;)*  expression
    expression atom (arguments | .number)*
    atom       %name  @name  number  True  meta[class][number]  operator  (expression, ...)
               fn (params) -> type { body }
    arguments  (expression, ..., name=value, ...)

A ``%name =`` gives a name to an expression, a ``let`` binds a variable; types are after ``:``
and in comments ``/* ty=... */``. The metadata is a saved graph (`graph_file`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.names import printable
from tvm_hetero.frontends.relay.arrays import dtype_of
from tvm_hetero.frontends.relay.free import free_variables
from tvm_hetero.frontends.relay.from_graph import constants_of
from tvm_hetero.frontends.relay.graph_file import parse_graph
from tvm_hetero.frontends.relay.lexer import Source, Token, tokens
from tvm_hetero.frontends.relay.limits import DEFAULT_LIMITS, Limits
from tvm_hetero.frontends.relay.program import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalName,
    Item,
    Let,
    Operator,
    Program,
    TensorType,
    Tuple,
    Type,
    Unsupported,
    Var,
)
from tvm_hetero.frontends.relay.text_types import read_type
from tvm_hetero.frontends.relay.text_values import Values, number_of

# Where the metadata begin: from TVM 0.7 on, and before.
_METADATA = ("#[metadata]", "/* meta data */")
_OLD_HEAD = re.compile(r"\s*v0\.0\.\d\b")  # how a text began in TVM 0.6
_CONTROL = ("if", "match", "match?", "ref", "ref_read", "ref_write")


def parse_text(text: str, name: str, limits: Limits = DEFAULT_LIMITS) -> Program:
    """Return the program of a text.

    Raises
    ------
    ModelError
        The text is no program, is truncated, or too large; it says on which line.
    """
    mark = next((mark for mark in _METADATA if mark in text), "")
    code, _, metadata = text.partition(mark) if mark else (text, "", "")
    if len(code) > limits.text_bytes:
        raise ModelError(f"{name}: {len(code)} characters; at most {limits.text_bytes} are taken")
    if (lines := code.count("\n")) > limits.tokens:
        raise ModelError(f"{name}: {lines} lines; at most {limits.tokens} are taken")
    found: dict[str, list[Any]] = {}
    version = ""
    if head := _OLD_HEAD.match(code):
        version, code = "0.6", " " * head.end() + code[head.end() :]
    source = Source(code, name)
    if mark:
        quarter = replace(limits, nodes=limits.nodes // 4, values=limits.values // 4)
        graph = parse_graph(metadata, f"{name}: metadata", quarter)
        found, version = constants_of(graph, f"{name}: metadata", quarter), graph.version or version
    parser = _Parser(source, tokens(source, limits), found, limits)
    functions = parser.program()
    version = version or ("0.8" if parser.newer else "")
    if "main" not in functions:
        raise ModelError(f"{name}: there is no function '@main'")
    return Program(functions, version)


class _Parser(Values):
    """A parser that looks one word ahead; see the module for the grammar."""

    def __init__(
        self, source: Source, words: list[Token], metadata: dict[str, list[Any]], limits: Limits
    ) -> None:
        super().__init__(source, words, metadata, limits)
        self.scopes: list[dict[str, Expr]] = [{}]
        self.newer = False  # whether parameters have comments with types, as from TVM 0.8 on

    # ------------------------------------------------------------------ definitions

    def program(self) -> dict[str, Function]:
        functions: dict[str, Function] = {}
        while self.word.kind != "end":
            if self.accept("#["):
                self._version()
            elif self.accept("def"):
                name = self.take()
                if name.kind != "global" or name.text[1:] in functions:
                    raise self.error("expected a new function's '@name'", name)
                functions[name.text[1:]] = self.function()
            elif self.accept("free_var"):
                self._free_variable()
            elif self.ahead("type") or self.ahead("extern"):
                raise self.error(f"'{self.word.text}' definitions are not supported")
            else:
                functions.setdefault("main", self._lone_expression())
        return functions

    def _version(self) -> None:
        self.expect("version")
        self.expect("=")
        version = self.take()
        if version.text not in ('"0.0.5"', '"0.0.4"', '"v0.0.4"'):
            raise self.error(
                f"version {printable(version.text)}; known are 0.0.4 and 0.0.5", version
            )
        self.expect("]")

    def _free_variable(self) -> None:
        name = self.take()
        self.expect(":")
        self.scopes[0][name.text] = Var(name.text[1:], self.type())
        self.skip_types()
        self.accept(";")

    def _lone_expression(self) -> Function:
        """A text of one expression: a function, or one of its free variables."""
        body = self.statements()
        if isinstance(body, Function):
            return body
        return Function(free_variables(body), body, None, {}, "the expression")

    def function(self) -> Function:
        """The rest of a function, from its parameters on."""
        self.deeper()
        where = self.source.where(self.word.at)
        if self.ahead("<") or self.ahead("["):
            raise self.error("type parameters are not supported")
        self.expect("(")
        params: list[Var] = []
        attributes: dict[str, Any] = {}
        scope: dict[str, Expr] = {}
        while not self.accept(")"):
            if self.word.kind == "local":
                params.append(self._parameter(scope))
            else:
                self.attribute(attributes)
            self.skip_types()
            if not self.ahead(")"):
                self.expect(",")
        result = self.type() if self.accept("->") else None
        self.expect("{")
        self.scopes.append(scope)
        body = self.statements()
        self.scopes.pop()
        self.expect("}")
        self.depth -= 1
        return Function(params, body, result, attributes, where)

    def _parameter(self, scope: dict[str, Expr]) -> Var:
        word = self.take()
        device = None
        if self.accept("{"):
            noted: dict[str, Any] = {}
            self.attribute(noted)
            device = noted.get("virtual_device")
            self.expect("}")
        kind = self.type() if self.accept(":") else None
        self.newer = self.newer or self.word.kind == "type"
        kind = self.skip_types() or kind
        var = Var(word.text[1:], kind, device)
        if word.text in scope:
            raise self.error(f"two parameters are called {printable(word.text)}", word)
        scope[word.text] = var
        return var

    def type(self) -> Type | None:
        """A type; those that say nothing are skipped as words."""
        start = self.word.at
        kind, end = read_type(self.source.text, start, self.source.where(start), self.limits)
        if kind is None:
            self._skip_type()
            return None
        while self.word.at < end and self.word.kind != "end":
            self.at += 1
        return kind

    def _skip_type(self) -> None:
        """``fn (...) -> T``, ``_``, ``meta[...][n]``: to where a type cannot go on."""
        depth = 0
        while self.word.kind != "end":
            text = self.word.text
            if depth == 0 and text in (",", ")", "=", "{", ";", "}"):
                return
            depth += (text in "([{") - (text in ")]}") if self.word.kind == "sign" else 0
            self.at += 1

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
            if kind is not None and isinstance(expr, Call) and expr.type is None:
                expr.type = kind
            if kind is not None and isinstance(expr, Constant) and isinstance(kind, TensorType):
                expr = self._retyped(expr, kind, start)
            if self.ahead("(") and not isinstance(expr, Constant | Tuple):
                expr = self._call(expr, start)
            elif self.word.kind == "item":
                expr = Item(expr, int(self.take().text[1:6]), self.source.where(start.at))
            else:
                self.depth -= 1
                return expr

    def _retyped(self, expr: Constant, kind: TensorType, word: Token) -> Constant:
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
            expr = Item(expr, index, self.source.where(word.at))
        return expr

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

    def _call(self, callee: Expr, start: Token) -> Call:
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
        return Call(callee, args, attributes, None, where)
