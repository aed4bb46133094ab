"""Continuous batching: sequences come and go, and slots are never idle while someone waits.

Each group of slots (see `tvm_hetero.generation.stepper`) has one request in flight at most, and
all groups have one, so that devices behind each other are busy with one group each. When an answer
is there, its group goes on at once:

    fill      sequences that wait enter free slots, the first come first, the emptiest group first
    chunk     a slot that lacks many tokens (a prompt) gets the next chunk of them
    step      otherwise every slot that lacks few gets one token more

Which tokens go by chunks and which by steps depends on the sequence alone, so that what is computed
for it does not depend on its neighbours: while more than `rest` are missing, a chunk. A few are
cheaper by steps, which are made for the neighbours anyway, than by a chunk that is mostly padding.
While others wait for their next token, at most `batch` chunks are made in a row.

Rows that stay
--------------
Rows stay in a slot when its sequence has ended, until someone else writes them. A sequence whose
prompt begins with the same tokens may begin behind them (`keeps_rows`), as the next turn of a chat
does. Only rows that whole chunks have made, one after the other from the first row, are taken:
the newcomer's own chunks would be the very same, so what is computed for it is the same bit by bit.
A kernel for chunks and one for steps do not add up in the same order, so rows of tokens that were
generated, which steps have made, are made again.

What goes wrong
---------------
A chunk that fails ends its sequence. A step that fails is made again for each of its sequences
alone, and those that fail then end. When caches are lost (`NodeLost`), nothing new begins until
nothing is in flight; then the stepper recovers, and every sequence, in the slot where it stands, is
one with many missing tokens: its prompt and what it has generated. No token is drawn twice, since
tokens are kept here and not in the caches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from itertools import count
from queue import SimpleQueue

from tvm_hetero.errors import HeteroError, NodeLost
from tvm_hetero.generation.sampling import Logits
from tvm_hetero.generation.sequences import (
    CANCELLED,
    FAILED,
    Entered,
    Event,
    GenerationRequest,
    Happening,
    ScoredPrompt,
    Sequence,
)
from tvm_hetero.generation.slots import Flight, KeptRows, SlotGroup, choose_slot
from tvm_hetero.generation.stepper import Stepper

# A rest of up to this share of a chunk goes by steps: a chunk takes a few times as long as a step.
_REST = 8
# Seconds that what is in flight has to end when no one wants it any more.
_PATIENCE = 30.0


class Batching:
    """Generates tokens of many sequences on one stepper, which it has to itself.

    `add`, `cancel` and `end` may be called from any thread; `events`, or `rounds`, is for one. It
    ends when every sequence has ended; ended early, it gives up those that have not.

    Parameters
    ----------
    keeps_rows : whether prompts begin behind rows that are there already (see the file's text).
    """

    def __init__(self, stepper: Stepper, *, keeps_rows: bool = False) -> None:
        self._stepper = stepper
        self._keeps_rows = keeps_rows
        self._rest = stepper.length if stepper.chunk == 1 else max(1, stepper.chunk // _REST)
        self._groups = [SlotGroup.of_size(g, stepper.batch) for g in range(stepper.groups)]
        self._numbers = count()
        self._waiting: deque[Sequence] = deque()
        self._inbox: SimpleQueue[Sequence | int] = SimpleQueue()  # an int: to be cancelled
        self._news: SimpleQueue[Flight | None] = SimpleQueue()  # that have their answer
        self._events: list[Happening] = []
        self._lost = False
        self._ended = False
        self._leavings = count()

    def add(self, request: GenerationRequest) -> int:
        """A sequence more; its number.

        Raises
        ------
        UsageError
            If the stepper cannot do that (see `GenerationRequest.check`).
        """
        request.check(self._stepper.length, self._stepper.vocabulary)
        sequence = Sequence(next(self._numbers), request)
        self._inbox.put(sequence)
        self._news.put(None)
        return sequence.number

    def cancel(self, sequence: int) -> None:
        """End a sequence; nothing if it has ended. What was generated has been told already."""
        self._inbox.put(sequence)
        self._news.put(None)

    def end(self) -> None:
        """Have `rounds` end; what has not ended is given up without another word."""
        self._ended = True
        self._news.put(None)

    def events(self) -> Iterator[Event]:
        """What happens, of each sequence in order, until all have ended."""
        with closing(self.rounds()) as rounds:
            for happened in rounds:
                yield from (each for each in happened if isinstance(each, Event))

    def rounds(self, *, stays: bool = False) -> Generator[list[Happening], None, None]:
        """What happens, as much at once as is known at once; what follows is under way by then.

        Parameters
        ----------
        stays : whether it waits for more when all sequences have ended, until `end` is called.
        """
        try:
            while not self._ended:
                self._read_inbox()
                self._fill()
                flying = self._launch()
                events, self._events = self._events, []
                if events:
                    yield events
                if flying:
                    self._land(self._news.get())
                elif self._lost:
                    self._recover()
                elif not self._unfinished() and self._inbox.empty():
                    if not stays:
                        return
                    self._news.get()
        finally:
            self._abandon()

    def _fill(self) -> None:
        """Let those who wait into free slots; caches that were lost are made again first."""
        while self._waiting and not self._lost:
            sequence = min(self._waiting, key=lambda each: (each.request.priority, each.number))
            place = choose_slot(self._groups, sequence, self._stepper.chunk)
            if place is None:
                return
            group, slot = place
            self._waiting.remove(sequence)
            there = group.kept[slot].count_reusable(sequence, self._stepper.chunk)
            sequence.rows = sequence.whole = there
            group.slots[slot], group.kept[slot] = sequence, KeptRows()
            self._events.append(Entered(sequence.number, there))

    def _launch(self) -> bool:
        """Have each group that is idle begin what it has to do; whether anything is in flight."""
        for group in self._groups:
            if group.flight is None and not self._lost:
                self._begin(group)
        return any(group.flight is not None for group in self._groups)

    def _begin(self, group: SlotGroup) -> None:
        """Begin a group's next chunk or step. What a stepper refuses at once fails as a flight."""
        chunks = [(s, each) for s, each in group.present if self._takes_chunk(each)]
        steps = [(s, each) for s, each in group.present if not self._takes_chunk(each)]
        if chunks and (not steps or group.chunks < len(group.slots)):
            group.chunks += bool(steps)
            slot, sequence = min(chunks, key=lambda pair: pair[1].number)
            self._chunk(group, slot, sequence)
        elif steps:
            group.chunks = 0
            while group.alone and all(each is not group.alone[0] for _, each in steps):
                group.alone.popleft()  # it has ended meanwhile
            only = group.alone.popleft() if group.alone else None
            self._step(group, [pair for pair in steps if only is None or pair[1] is only])

    def _takes_chunk(self, sequence: Sequence) -> bool:
        return sequence.missing > self._rest and not sequence.request.scores_prompt

    def _chunk(self, group: SlotGroup, slot: int, sequence: Sequence) -> None:
        start = sequence.rows
        tokens = sequence.tokens[start : start + self._stepper.chunk]
        members = [(slot, sequence, len(tokens))]
        try:
            answer = self._stepper.prefill(group.number, slot, tokens, start)
        except HeteroError as error:
            self._fail(group, members, error, step=False)
        else:
            self._fly(group, Flight(group.number, answer, members, step=False))

    def _step(self, group: SlotGroup, takes_part: list[tuple[int, Sequence]]) -> None:
        """A token for each of these; others get one whose row they will write next themselves."""
        tokens = [0] * len(group.slots)
        positions = [
            kept.spare_row(self._stepper.length, self._stepper.chunk) if each is None else each.rows
            for each, kept in zip(group.slots, group.kept, strict=True)
        ]
        for slot, sequence in takes_part:
            tokens[slot] = sequence.tokens[sequence.rows]
        members = [(slot, sequence, 1) for slot, sequence in takes_part]
        try:
            answer = self._stepper.step(group.number, tokens, positions)
        except HeteroError as error:
            self._fail(group, members, error, step=True)
        else:
            self._fly(group, Flight(group.number, answer, members, step=True))

    def _fly(self, group: SlotGroup, flight: Flight) -> None:
        group.flight = flight
        flight.answer.add_done_callback(lambda _: self._news.put(flight))

    def _land(self, flight: Flight | None) -> None:
        """Take an answer; None: there is other news."""
        if flight is None or flight is not self._groups[flight.group].flight:
            return  # the latter: it was given up
        group = self._groups[flight.group]
        group.flight = None
        try:
            logits = flight.answer.result()
        except HeteroError as error:
            self._fail(group, flight.members, error, flight.step)
            return
        for slot, sequence, tokens in flight.members:
            if sequence.reason is None:
                if tokens == self._stepper.chunk and sequence.whole == sequence.rows:
                    sequence.whole += tokens
                self._advance(sequence, tokens, logits[slot] if flight.step else logits)

    def _advance(self, sequence: Sequence, tokens: int, logits: Logits) -> None:
        try:
            token = sequence.advance(tokens, logits, self._stepper.length)
        except HeteroError as error:  # its own logits are of no use
            self._end(sequence, FAILED, error)
            return
        if token is not None:
            if sequence.scores and len(sequence.new_tokens) == 1:
                self._events.append(ScoredPrompt(sequence.number, tuple(sequence.scores)))
            self._events.append(
                Event(sequence.number, token, sequence.reason, logprobs=sequence.logprobs)
            )
        if sequence.reason is not None:
            self._leave(sequence)

    def _fail(
        self,
        group: SlotGroup,
        members: list[tuple[int, Sequence, int]],
        error: HeteroError,
        step: bool,
    ) -> None:
        """A request failed: of one sequence, it ends; of several, each shall try alone."""
        left = [sequence for _, sequence, _ in members if sequence.reason is None]
        if isinstance(error, NodeLost):
            self._lost = True
        elif step and len(members) > 1:
            group.alone.extend(left)
        else:
            for sequence in left:
                self._end(sequence, FAILED, error)

    def _recover(self) -> None:
        """Caches were lost, and nothing is in flight: begin again from the tokens."""
        self._lost = False
        try:
            self._stepper.recover()
        except NodeLost:
            self._lost = True  # another one
        except HeteroError as error:
            for sequence in self._unfinished():
                self._end(sequence, FAILED, error)
        for sequence in self._unfinished():
            sequence.rows = sequence.whole = 0
        for group in self._groups:
            group.forget_rows()

    def _unfinished(self) -> list[Sequence]:
        inside = [sequence for group in self._groups for _, sequence in group.present]
        return [*inside, *self._waiting]

    def _read_inbox(self) -> None:
        while not self._inbox.empty():
            letter = self._inbox.get()
            if isinstance(letter, Sequence):
                self._waiting.append(letter)
                continue
            for sequence in self._unfinished():
                if sequence.number == letter:
                    self._end(sequence, CANCELLED)

    def _end(self, sequence: Sequence, reason: str, error: HeteroError | None = None) -> None:
        """End a sequence before its time; its slot is free."""
        sequence.reason, sequence.error = reason, error
        self._events.append(Event(sequence.number, None, reason, error))
        self._leave(sequence)

    def _leave(self, sequence: Sequence) -> None:
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        for group in self._groups:
            for slot, each in enumerate(group.slots):
                if each is sequence:
                    group.slots[slot] = None
                    group.kept[slot] = self._keep(sequence)

    def _keep(self, sequence: Sequence) -> KeptRows:
        if not self._keeps_rows or sequence.reason == FAILED:
            return KeptRows()
        return KeptRows(sequence.tokens[: sequence.whole], next(self._leavings))

    def _abandon(self) -> None:
        """Leave nothing in flight and no one waiting: the stepper may be someone else's next."""
        flights = [group.flight for group in self._groups if group.flight is not None]
        for group in self._groups:
            group.flight = None
            group.slots = [None] * len(group.slots)
        self._waiting.clear()
        self._events.clear()
        for flight in flights:
            # Not cancelled: its last kernel might write into the caches of who comes next.
            with suppress(HeteroError, TimeoutError):
                flight.answer.result(_PATIENCE)
