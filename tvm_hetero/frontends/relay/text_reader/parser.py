"""A Relay program in text (``mod.astext()``, version 0.0.5) to a `RelayProgram`.

    program    definition*  expression?  metadata?
    definition def @name(params) -> type { body }
    params     %name: type, ...  name=value, ...            (attributes of the function)

    body, expression                            `text_reader.expressions`
    name=value                                  `text_reader.values`
    type                                        `text_reader.types`

Types are after ``:`` and in comments ``/* ty=... */``. The metadata is a saved graph
(`graph_file`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, RelayLimits
from tvm_hetero.frontends.relay.core.program import Expr, Function, RelayProgram, Var
from tvm_hetero.frontends.relay.json_reader.free_variables import free_variables
from tvm_hetero.frontends.relay.json_reader.from_graph import constants_of
from tvm_hetero.frontends.relay.json_reader.graph_file import parse_graph
from tvm_hetero.frontends.relay.text_reader.expressions import Expressions
from tvm_hetero.frontends.relay.text_reader.lexer import SourceText, Token, tokens
from tvm_hetero.util.untrusted_names import printable

# Where the metadata begin: from TVM 0.7 on, and before.
_METADATA = ("#[metadata]", "/* meta data */")
_OLD_HEAD = re.compile(r"\s*v0\.0\.\d\b")  # how a text began in TVM 0.6


def parse_text(text: str, name: str, limits: RelayLimits = DEFAULT_LIMITS) -> RelayProgram:
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
    source = SourceText(code, name)
    if mark:
        quarter = replace(limits, nodes=limits.nodes // 4, values=limits.values // 4)
        graph = parse_graph(metadata, f"{name}: metadata", quarter)
        found, version = constants_of(graph, f"{name}: metadata", quarter), graph.version or version
    parser = _Parser(source, tokens(source, limits), found, limits)
    functions = parser.program()
    version = version or ("0.8" if parser.newer else "")
    if "main" not in functions:
        raise ModelError(f"{name}: there is no function '@main'")
    return RelayProgram(functions, version)


class _Parser(Expressions):
    """A parser that looks one word ahead; see the module for the grammar."""

    def __init__(
        self,
        source: SourceText,
        words: list[Token],
        metadata: dict[str, list[Any]],
        limits: RelayLimits,
    ) -> None:
        super().__init__(source, words, metadata, limits)
        self.newer = False  # whether parameters have comments with types, as from TVM 0.8 on

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
