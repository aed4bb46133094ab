"""All routes of a server in one table; there is no other way in.

What has no route is answered by a handler of ours, too, so that keys are asked for everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tornado.web import HTTPError

from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.http.delegate import DoorApplication
from tvm_hetero.serve.http.handler import ApiHandler


class HttpRoute(NamedTuple):
    """A pattern of paths (a regular expression with named groups), and who answers."""

    pattern: str
    handler: type[ApiHandler]


class NoRoute(ApiHandler):
    """Answers what has no route."""

    def check_door(self) -> None:
        """Nothing is here."""
        raise HTTPError(404)


def make_application(context: ServeContext, routes: Iterable[HttpRoute]) -> DoorApplication:
    """The application that tornado serves."""
    return DoorApplication(context, routes, NoRoute)
