"""The laws of sketches, as checks that run on any sketch (needs ``hypothesis``).

Describe a sketch in a :class:`SketchCase`, then run every check of it::

    @pytest.mark.parametrize("check", checks(case), ids=str)
    def test_laws(check):
        check()

Answers are compared with the exact answer that the case computes, never with other estimates.
"""

import inspect
import pickle
import random
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from recency.bank import Bank
from recency.errors import (
    CorruptSketchError,
    IncompatibleSketchError,
    NoAnswerError,
    OutOfOrderError,
)
from recency.estimate import Estimate
from recency.serialization import decode_many, encode_keyed, encode_many, loads
from recency.sketch import Sketch, merge_all
from recency.testing.faults import interruptions
from recency.testing.processes import HASH_SEEDS, bytes_elsewhere
from recency.timeunit import YEARS

Event = Mapping[str, Any]
Question = Mapping[str, Any]


@dataclass(frozen=True)
class SketchCase:
    """Description of a sketch for the laws: its fields say how to build, feed and ask it.

    If a law does not hold, name it in ``exceptions`` with the reason. It must then really fail: a
    law in ``exceptions`` that holds is an error.
    """

    name: str
    make: Callable[[], Sketch]
    """An empty sketch."""
    events: st.SearchStrategy[list[dict[str, Any]]]
    """Short streams of events, which are the arguments of ``update``; see ``in_order``."""
    questions: Callable[[Sequence[Event]], Sequence[Question]]
    """Arguments of ``query`` to try for these events; windows should begin at events, too."""
    exact: Callable[[Sequence[Event], Question], float]
    """The exact answer to a question about these events."""
    stream: Callable[[int], dict[str, Any]]
    """Arguments of ``update_many`` for a long, seeded stream with that number of events."""
    varied: Mapping[str, Callable[[], Sketch]]
    """For each field of the configuration, an empty sketch that differs in that field alone."""
    fixed: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Fields that cannot differ alone, each with the reason."""
    bad_updates: Sequence[tuple[str, Event, type[Exception]]]
    """Method, arguments and error of updates that must be refused after any valid ones."""
    most_bytes: int
    """Upper bound on the bytes after 200 000 events of ``stream``."""
    in_order: bool = False
    """Whether events must be in time order, as they are in ``events`` and ``stream``."""
    ignores_duplicates: bool = False
    """Whether adding an event twice is the same as adding it once."""
    certain: bool = False
    """Whether intervals have confidence 1."""
    needs: Mapping[str, Any] = field(default_factory=dict)
    """Required arguments of ``query``."""
    needs_data: bool = False
    """Whether ``query`` of an empty sketch or window raises a ``ValueError``."""
    more_questions: Sequence[Callable[[Any], Any]] = field(default=(), kw_only=True)
    """Functions of a sketch that ask further questions; a ``NoAnswerError`` is allowed."""
    time: str | None = "at"
    """Name of the parameter with the time; None if there is none."""
    examples: int = 60
    """Number of generated examples per law."""
    shrink: bool = True
    """Whether to look for the simplest example of a failure."""
    mutations: int = 20_000
    """Number of changed byte strings to read."""
    interruptions: int | None = None
    """Number of lines of each call to interrupt, spread over the call. None: all lines."""
    exceptions: Mapping[str, str] = field(default_factory=dict)
    """Names of laws that do not hold, each with the reason."""


class Check:
    """One law for one case; call it to run the law. It raises an ``AssertionError`` if it fails."""

    def __init__(self, case: SketchCase, law: Callable[[SketchCase], None]) -> None:
        self.case, self.law = case, law

    def __str__(self) -> str:
        """Return the name of case and law, for test ids."""
        return f"{self.case.name}-{self.law.__name__}"

    def __call__(self) -> None:
        """Run the law. A law in ``exceptions`` must fail."""
        reason = self.case.exceptions.get(self.law.__name__)
        if reason is None:
            self.law(self.case)
            return
        try:
            self.law(replace(self.case, shrink=False))
        except (AssertionError, IncompatibleSketchError):
            return
        raise AssertionError(f"{self} holds although it is an exception: {reason}")


def checks(case: SketchCase) -> list[Check]:
    """Return a check for every law that applies to the case.

    Raises a ``ValueError`` if ``exceptions`` names something that is not a law.
    """
    laws = list(LAWS)
    if not case.in_order:
        laws.append(order_does_not_matter)
    if case.ignores_duplicates:
        laws.append(duplicates_do_not_matter)
    if case.time is not None:
        laws.append(shifting_all_times_shifts_nothing_else)
    unknown = set(case.exceptions) - {law.__name__ for law in laws}
    if unknown:
        raise ValueError(f"exceptions must name laws, got {sorted(unknown)}")
    return [Check(case, law) for law in laws]


# --- helpers ----------------------------------------------------------------------------------


def build(case: SketchCase, events: Sequence[Event]) -> Sketch:
    """Return a sketch of these events, added by one ``update`` each."""
    sketch = case.make()
    for event in events:
        sketch.update(**event)
    return sketch


def assert_answers_hold(case: SketchCase, sketch: Sketch, events: Sequence[Event]) -> None:
    """Assert that the answers to all questions of the case hold, for these events."""
    for question in case.questions(events):
        answer = sketch.query(**question)
        truth = case.exact(events, question)
        context = f"{question}: {answer}, exact {truth}, {sketch!r}"
        assert answer.lower <= answer.value <= answer.upper, context
        if case.certain or answer.exact:
            assert answer.lower <= truth <= answer.upper, context
        if case.certain:
            assert abs(answer.value - truth) <= sketch.guarantee * truth * (1 + 1e-12), context


def _columns(events: Sequence[Event]) -> dict[str, list[Any]]:
    return {name: [event[name] for event in events] for name in events[0]}


def _examples(case: SketchCase, body: Callable[..., None], **strategies: Any) -> None:
    """Run ``body`` on generated arguments: the same ones every time."""
    phases = [Phase.explicit, Phase.generate, *([Phase.shrink] if case.shrink else [])]
    configured = settings(
        phases=phases,
        max_examples=case.examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    configured(given(**strategies)(body))()


def _of_examples(body: Callable[..., None]) -> Callable[[SketchCase], None]:
    """A law that holds for any events of a case; ``data`` is for what else an example needs."""
    needs_data = "data" in inspect.signature(body).parameters

    @wraps(body)
    def law(case: SketchCase) -> None:
        strategies = {"events": case.events, **({"data": st.data()} if needs_data else {})}
        _examples(case, lambda **drawn: body(case, **drawn), **strategies)

    return law


def _refusal(expected: type[Exception], call: Callable[[], Any], what: object) -> str:
    """What the error says that a call must raise."""
    try:
        call()
    except expected as error:
        return str(error)
    raise AssertionError(f"not refused: {what}")


def _later(case: SketchCase, sketch: Sketch) -> dict[str, Any]:
    """Arguments of ``update_many`` for three events after all that a sketch has seen."""
    columns = case.stream(3)
    if case.time is not None:
        after = min(sketch.latest or 0, 2**63 - 100) + 1
        columns[case.time] = np.asarray(columns[case.time]) + after
    return columns


def _batches(draw: Any, events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    while events:
        size = draw(st.integers(1, len(events)))
        yield events[:size]
        events = events[size:]


def _split(draw: Any, events: Sequence[Event], parts: int) -> list[list[Event]]:
    owner = draw(st.lists(st.integers(0, parts - 1), min_size=len(events), max_size=len(events)))
    return [
        [event for event, part in zip(events, owner, strict=True) if part == index]
        for index in range(parts)
    ]


# --- laws -------------------------------------------------------------------------------------


def an_empty_sketch_answers_zero(case: SketchCase) -> None:
    """An empty sketch has no latest time, and answers exactly 0 or raises a ``ValueError``."""
    sketch = case.make()
    assert sketch.is_empty
    assert sketch.latest is None
    for question in [case.needs, *case.questions([])]:
        if case.needs_data:
            _refusal(ValueError, partial(sketch.query, **question), question)
        else:
            assert sketch.query(**question) == Estimate(0.0, 0.0, 0.0)


@_of_examples
def answers_hold(case: SketchCase, events: list[Event]) -> None:
    """Intervals contain the truth and errors are within the guarantee, at window edges."""
    assert_answers_hold(case, build(case, events), events)


@_of_examples
def batch_equals_scalar(case: SketchCase, events: list[Event]) -> None:
    """One ``update_many`` leads to the same state as one ``update`` per event."""
    if events:
        batch = case.make()
        batch.update_many(**_columns(events))
        assert batch == build(case, events)


@_of_examples
def batching_does_not_matter(case: SketchCase, events: list[Event], data: Any) -> None:
    """The state does not depend on batches, nor on questions between them."""
    sketch = case.make()
    seen: list[Event] = []
    for batch in _batches(data.draw, events):
        sketch.update_many(**_columns(batch))
        seen.extend(batch)
        if data.draw(st.booleans()):
            assert_answers_hold(case, sketch, seen)
    assert sketch == build(case, events)


def long_batches_equal_short_ones(case: SketchCase) -> None:
    """The same for a long stream, where levels overflow and elements expire."""
    columns = case.stream(20_000)
    whole, cut = case.make(), case.make()
    whole.update_many(**columns)
    begin = 0
    for size in [1, 2, 4095, 4096, 4097, 1, 20_000]:
        part = {name: values[begin : begin + size] for name, values in columns.items()}
        cut.update_many(**part)
        begin += size
    assert whole == cut


def a_bank_is_many_sketches(case: SketchCase) -> None:
    """A bank has the same bytes as one sketch per key."""

    def compare(batches: Sequence[tuple[list[int], dict[str, Any]]], merge_levels: int) -> None:
        bank = Bank(case.make(), merge_levels=merge_levels, stream=3)
        alone: dict[int, Sketch] = {}
        for keys, columns in batches:
            bank.update_many(keys, **columns)
            for key in dict.fromkeys(keys):
                empty = case.make().empty_like(merge_levels, stream=3 + len(alone))
                rows = [i for i, each in enumerate(keys) if each == key]
                part = {name: [column[i] for i in rows] for name, column in columns.items()}
                alone.setdefault(key, empty).update_many(**part)
        assert dict(bank.items()) == alone
        assert list(bank.to_bytes()) == list(alone)
        assert list(bank.to_bytes().values()) == [sketch.to_bytes() for sketch in alone.values()]
        final = bank._keyed.finalized(bank.prototype._keyed)
        for frame, sketch in zip(encode_keyed(bank.prototype, final), alone.values(), strict=True):
            sketch._finalize(case.make())
            assert frame == sketch.to_bytes()

    def body(events: list[Event], levels: int, data: Any) -> None:
        key = st.sampled_from([5, -2, 7, 2**40])
        batches = [
            (data.draw(st.lists(key, min_size=len(batch), max_size=len(batch))), _columns(batch))
            for batch in _batches(data.draw, events)
        ]
        compare(batches, levels)

    _examples(case, body, events=case.events, levels=st.integers(0, 2), data=st.data())
    columns = _columns(_rows_of(case.stream(20_000)))
    keys = np.random.default_rng(3).integers(0, 7, 20_000).tolist()
    cuts = [0, 1, 2, 9_000, 20_000]
    batches = [
        (keys[a:b], {name: each[a:b] for name, each in columns.items()}) for a, b in pairwise(cuts)
    ]
    compare(batches, merge_levels=1)


@_of_examples
def a_bank_answers_for_all_its_keys(case: SketchCase, events: list[Event], data: Any) -> None:
    """A bank has the answers of its sketches; without an answer NaN in (−∞, ∞)."""
    keys = data.draw(st.lists(st.sampled_from("abc"), min_size=len(events), max_size=len(events)))
    bank = Bank(case.make())
    for key, event in zip(keys, events, strict=True):
        bank.update_many(key, **_columns([event]))
    for question in [case.needs, *case.questions(events)]:
        try:
            answers = bank.query(**question)
        except ValueError:  # the question is refused; then it is for one of the sketches, too
            assert any(_is_refused(bank[key], question) for key in bank)
            continue
        for i, key in enumerate(bank):
            here = [np.broadcast_to(each, len(bank))[i] for each in vars(answers).values()]
            try:
                answer = bank[key].query(**question)
            except NoAnswerError:
                assert np.isnan(here[0])
                assert here[1:3] == [-np.inf, np.inf]
            else:
                assert Estimate(*here) == answer
        chosen = [*range(0, len(bank), 2), 0] if len(bank) else []  # one of them twice
        some = bank.query(**question, keys=[list(bank)[i] for i in chosen])
        assert np.array_equal(some.value, answers.value[chosen], equal_nan=True)


def _is_refused(sketch: Sketch, question: Question) -> bool:
    try:
        sketch.query(**question)
    except NoAnswerError:
        return False
    except ValueError:
        return True
    return False


@_of_examples
def banks_merge_key_by_key(case: SketchCase, events: list[Event], data: Any) -> None:
    """Banks merge like the sketches of each key; keys of only one bank do not change."""
    if not _merges(case):
        return
    banks = [Bank(case.make(), stream=stream) for stream in (0, 10)]
    keys = st.sampled_from("abcd")
    owners = data.draw(
        st.lists(st.tuples(st.booleans(), keys), min_size=len(events), max_size=len(events))
    )
    for (which, key), event in zip(owners, events, strict=True):
        banks[which].update_many(key, **_columns([event]))
    before = [bank.to_bytes() for bank in banks]
    expected = {
        key: merge_all([loads(part[key]) for part in before if key in part]).to_bytes()
        for key in [*banks[0], *banks[1]]
    }
    assert banks[0].merge(banks[1]) is banks[0]
    assert banks[0].to_bytes() == expected
    assert banks[1].to_bytes() == before[1]
    assert Bank.from_bytes(expected, case.make()).to_bytes() == expected


def an_empty_batch_changes_nothing(case: SketchCase) -> None:
    """An ``update_many`` without rows changes nothing, not even ``latest``."""
    sketch = case.make()
    sketch.update_many(**{name: values[:0] for name, values in case.stream(1).items()})
    assert sketch.is_empty
    assert sketch == case.make()


@_of_examples
def merging_with_empty_is_identity(case: SketchCase, events: list[Event]) -> None:
    """Merging with an empty sketch, on either side, changes nothing."""
    sketch = build(case, events)
    before = sketch.to_bytes()
    assert sketch.merge(case.make()).to_bytes() == before
    assert case.make().merge(sketch).to_bytes() == before
    assert merge_all([case.make(), sketch, case.make()]).to_bytes() == before


@_of_examples
def merging_commutes(case: SketchCase, events: list[Event], data: Any) -> None:
    """a ∪ b = b ∪ a."""
    a, b = (build(case, part) for part in _split(data.draw, events, 2))
    assert a.copy().merge(b) == b.copy().merge(a) == merge_all([b, a])


@_of_examples
def merging_associates(case: SketchCase, events: list[Event], data: Any) -> None:
    """(a ∪ b) ∪ c = a ∪ (b ∪ c): equal bytes, or both within their guarantees."""
    a, b, c = (build(case, part) for part in _split(data.draw, events, 3))
    left = a.copy().merge(b).merge(c)
    right = a.copy().merge(b.copy().merge(c))
    if case.make().merge_law == "exact":
        assert left == right == merge_all([a, b, c])
    else:
        for sketch in (left, right, merge_all([a, b, c])):
            assert_answers_hold(case, sketch, events)


@_of_examples
def merging_equals_one_pass(case: SketchCase, events: list[Event], data: Any) -> None:
    """Any split and any merge tree give the bytes of one pass, or hold the guarantee."""
    forest = [build(case, part) for part in _split(data.draw, events, 5)]
    while len(forest) > 1:
        children = data.draw(st.integers(2, len(forest)))
        forest = [*forest[children:], merge_all(forest[:children])]
    whole = build(case, events)
    assert forest[0].latest == whole.latest
    if whole.merge_law == "exact":
        assert forest[0] == whole
    else:
        assert_answers_hold(case, forest[0], events)


@_of_examples
def a_merged_sketch_can_be_updated(case: SketchCase, events: list[Event], data: Any) -> None:
    """A merged sketch counts later events like any other sketch."""
    cut = data.draw(st.integers(0, len(events)))
    merged = merge_all(build(case, part) for part in _split(data.draw, events[:cut], 3))
    for event in events[cut:]:
        merged.update(**event)
    assert_answers_hold(case, merged, events)


@_of_examples
def operands_are_left_alone(case: SketchCase, events: list[Event], data: Any) -> None:
    """Merging does not change the other sketch, and both share no state afterwards."""
    mine, theirs = _split(data.draw, events, 2)
    a, b = build(case, mine), build(case, theirs)
    a_before, b_before = a.to_bytes(), b.to_bytes()
    joint = merge_all([a, b])
    twin = a.copy()
    assert (a.to_bytes(), b.to_bytes()) == (a_before, b_before)
    merged = twin.merge(b)
    assert merged is twin
    assert (a.to_bytes(), b.to_bytes()) == (a_before, b_before)
    after = twin.to_bytes()
    for sketch in (joint, a, b):
        sketch.update_many(**_later(case, sketch))
    assert twin.to_bytes() == after


@_of_examples
def questions_change_nothing(case: SketchCase, events: list[Event]) -> None:
    """Questions, ``repr``, copies and ``to_bytes`` change neither bytes nor answers."""
    asked, silent = build(case, events), build(case, events)
    questions = case.questions(events)
    answers = [asked.query(**question) for question in questions]
    repr(asked)
    asked.copy()
    _ = (asked.guarantee, asked.nbytes, asked.latest, asked.is_empty)
    assert asked.empty_like().is_empty
    assert asked.empty_like().config == asked.config
    assert asked.to_bytes() == silent.to_bytes()
    assert asked.nbytes == len(asked.to_bytes())
    assert [asked.query(**question) for question in questions] == answers


def each_setting_must_agree_to_merge(case: SketchCase) -> None:
    """Sketches that differ in one setting or in class do not merge; the error says which."""
    sketch = case.make()
    sketch.update_many(**case.stream(10))
    before = sketch.to_bytes()
    assert {*case.varied, *case.fixed} == {setting.name for setting in fields(sketch.config)}
    for setting, make in case.varied.items():
        for refused in (sketch.merge, lambda other: merge_all([sketch, other])):
            error = _refusal(IncompatibleSketchError, partial(refused, make()), setting)
            assert error.startswith(f"cannot merge {type(sketch).__name__}: {setting} ")
    for other in (None, 3, object()):
        _refusal(TypeError, partial(sketch.merge, other), other)  # type: ignore[arg-type]
    assert sketch.to_bytes() == before


def bad_updates_change_nothing(case: SketchCase) -> None:
    """A refused update raises its error and does not change the state."""
    for columns in ({}, case.stream(100)):
        sketch = case.make()
        if columns:
            sketch.update_many(**columns)
        before, latest = sketch.to_bytes(), sketch.latest
        for method, arguments, expected in case.bad_updates:
            update = partial(getattr(sketch, method), **arguments)
            assert len(_refusal(expected, update, (method, arguments))) > 10
            assert sketch.to_bytes() == before, (method, arguments)
            assert sketch.latest == latest


@_of_examples
def bytes_round_trip(case: SketchCase, events: list[Event], data: Any) -> None:
    """A sketch that was read from bytes equals the original, now and after more updates."""
    cut = data.draw(st.integers(0, len(events)))
    sketch = build(case, events[:cut])
    frame = sketch.to_bytes()
    back = loads(frame)
    assert type(back) is type(sketch)
    assert back == sketch == pickle.loads(pickle.dumps(sketch))
    assert type(sketch).from_bytes(bytearray(frame)) == sketch
    assert back.config == sketch.config
    assert back.guarantee == sketch.guarantee
    for question in case.questions(events[:cut]):
        assert back.query(**question) == sketch.query(**question)
    for event in events[cut:]:
        back.update(**event)
    assert back == build(case, events)


@_of_examples
def many_are_encoded_like_one(case: SketchCase, events: list[Event], data: Any) -> None:
    """``encode_many`` and ``decode_many`` equal loops over sketches, also empty ones."""
    sketches = [build(case, part) for part in _split(data.draw, events, 6)]
    sketches += [make() for make in case.varied.values()]
    frames = encode_many(sketches)
    assert frames == [sketch.to_bytes() for sketch in sketches]
    assert decode_many(frames) == sketches


def truncated_bytes_are_refused(case: SketchCase) -> None:
    """Every proper prefix of the bytes, and every extension, raises an error."""
    sketch = case.make()
    sketch.update_many(**case.stream(300))
    frame = sketch.to_bytes()
    for broken in [*(frame[:size] for size in range(len(frame))), frame + b"\0"]:
        _refusal(CorruptSketchError, partial(loads, broken), f"{len(broken)} of {len(frame)} bytes")


def mutated_bytes_are_refused_or_harmless(case: SketchCase) -> None:
    """Bytes with some changes raise an error or are a valid sketch; half keep a valid CRC."""
    rng = random.Random(1)
    sketches = [case.make().empty_like(merge_levels=levels) for levels in (0, 0, 0, 2)]
    for sketch, size in zip(sketches, (0, 5, 300, 300), strict=True):
        sketch.update_many(**case.stream(size))
    if "merging_commutes" not in case.exceptions:
        sketches.append(merge_all([sketches[1], sketches[2], sketches[3]]))
    sketches += _at_the_ends_of_time(case)
    frames = encode_many(sketches)
    for trial in range(case.mutations):
        frame = bytearray(rng.choice(frames))
        for _ in range(rng.randint(1, 3)):
            _mutate(frame, rng)
        if trial % 2:
            frame[-4:] = zlib.crc32(frame[:-4]).to_bytes(4, "little")
        try:
            sketch = loads(bytes(frame))
        except CorruptSketchError:
            continue
        assert sketch.to_bytes() == frame
        if type(sketch) is not type(case.make()):
            continue  # another kind, by its family; its own case looks at that
        if not trial % 16:
            assert repr(sketch)
        _answers_everything(case, sketch)
        _go_on(case, sketch)


def _at_the_ends_of_time(case: SketchCase) -> list[Sketch]:
    """Sketches of events at the first and the last times there are."""
    sketches: list[Sketch] = []
    if case.time is None or _unit(case.make()) is not None:
        return sketches
    for end in (-(2**63) + 1, 2**63 - 1):
        columns = case.stream(40)
        times = np.asarray(columns[case.time])
        columns[case.time] = end + (times - times.min() if end < 0 else times - times.max())
        sketches.append(case.make())
        sketches[-1].update_many(**columns)
    return sketches


def _answers_everything(case: SketchCase, sketch: Sketch) -> None:
    """Intervals that hold their values, or a reason why there is no answer."""
    questions = [lambda asked: asked.query(**case.needs), *case.more_questions]
    for ask in questions:
        try:
            answer = ask(sketch)
        except NoAnswerError as error:
            assert len(str(error)) > 10, error
            continue
        except ValueError:
            # Under other settings these questions may not be valid.
            assert sketch.config != case.make().config
            continue
        for each in [pair[1] for pair in answer] if isinstance(answer, list) else [answer]:
            assert np.all(each.lower <= each.value), (answer, sketch)
            assert np.all(each.value <= each.upper), (answer, sketch)


def _go_on(case: SketchCase, sketch: Sketch) -> None:
    """A sketch that was read can be updated and merged, and what comes out can be read again."""
    try:
        sketch.update_many(**_later(case, sketch))
        assert loads(sketch.to_bytes()) == sketch
        if "merging_commutes" not in case.exceptions:
            merged = merge_all([sketch, sketch.copy()])
            assert loads(merged.to_bytes()) == merged
    except (OutOfOrderError, ValueError) as error:
        # Near the end of the range there is no room for more, and under other settings these
        # events may not be valid.
        assert not isinstance(error, CorruptSketchError), error
        is_other = sketch.config != case.make().config
        ends = ["int64"] if _unit(sketch) is None else ["int64", "years 1–9999"]
        at_end = isinstance(error, OutOfOrderError) or any(end in str(error) for end in ends)
        assert is_other or at_end, error


def _unit(sketch: Sketch) -> str | None:
    return getattr(sketch.config, "unit", None)


def _mutate(frame: bytearray, rng: random.Random) -> None:
    position = rng.randrange(max(1, len(frame) - 4))
    match rng.randrange(4):
        case 0:
            frame[position] ^= 1 << rng.randrange(8)
        case 1:
            frame[position] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        case 2:
            del frame[position]
        case 3:
            frame.insert(position, rng.randrange(256))


def bytes_are_the_same_in_every_process(case: SketchCase) -> None:
    """The bytes do not depend on ``PYTHONHASHSEED``."""
    sketch, columns = case.make(), case.stream(2_000)
    elsewhere = [bytes_elsewhere(seed, sketch, columns) for seed in HASH_SEEDS]
    sketch.update_many(**columns)
    assert elsewhere == [sketch.to_bytes()] * len(HASH_SEEDS)


def memory_is_bounded(case: SketchCase) -> None:
    """The size of the bytes stays below ``most_bytes`` for a long stream."""
    sketch = case.make()
    columns = case.stream(200_000)
    sketch.update_many(**columns)
    assert sketch.nbytes <= case.most_bytes, sketch.nbytes


def threads_may_read_at_once(case: SketchCase) -> None:
    """Several threads may ask a sketch with buffered rows while none updates it."""
    rows = _rows_of(case.stream(400))
    frame = build(case, rows[:200]).to_bytes()

    def make() -> Sketch:
        sketch = loads(frame)
        for row in rows[200:]:
            sketch.update(**row)
        return sketch

    def look(sketch: Sketch) -> list[Any]:
        with suppress(NoAnswerError):
            return [sketch.copy().latest, sketch.query(**case.needs), sketch.to_bytes()]
        return [sketch.to_bytes()]

    expected = look(make())
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            sketch = make()
            with ThreadPoolExecutor(4) as threads:
                for seen in threads.map(look, [sketch] * 4):
                    assert seen == expected
            assert look(sketch) == expected
    finally:
        sys.setswitchinterval(before)


def interrupted_calls_lose_nothing(case: SketchCase) -> None:
    """A call that is interrupted at any line has no effect or its whole effect."""
    lost = [
        f"{name}, {where}"
        for name, make, call, bytes_of in _interruptible(case)
        for where in _lost(make, call, bytes_of, _code_of(case), case.interruptions)
    ]
    assert not lost, f"{len(lost)} of them, such as {lost[:3]}"


def _code_of(case: SketchCase) -> tuple[str, ...]:
    """The files that calls are interrupted in: of this package, and of the sketch if it is not."""
    return str(Path(__file__).parents[1]), inspect.getfile(type(case.make()))


def _lost(
    make: Callable[[], Any],
    call: Callable[[Any], Any],
    bytes_of: Callable[[Any], Any],
    files: tuple[str, ...],
    most: int | None,
) -> Iterator[str]:
    """Where an interruption leaves what is neither the state before nor the one after."""
    finished = make()
    call(finished)
    states = [bytes_of(make()), bytes_of(finished)]
    for where, interrupted in interruptions(make, call, files, most):
        try:
            if bytes_of(interrupted) not in states:
                yield where
        except Exception as error:
            yield f"{where}: {error!r}"


Calls = Iterator[tuple[str, Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]]


def _interruptible(case: SketchCase) -> Calls:
    """Names of calls, what they are made on, the calls, and the bytes after one more update."""
    rows = _rows_of(case.stream(60))
    first, block, other = rows[:30], rows[30:40], rows[40:55]
    one, two, three, last, after = rows[55:]
    if case.in_order:  # parts of one stream, each in order
        other = rows[20:35]
    frame = build(case, first).to_bytes()

    def make() -> Sketch:
        sketch = loads(frame)
        sketch.update_many(**_columns(block))
        sketch.update(**one)
        sketch.update(**two)
        return sketch

    def bytes_of(sketch: Sketch) -> bytes:
        sketch.update(**after)
        return sketch.to_bytes()

    def ask(sketch: Sketch) -> None:
        with suppress(NoAnswerError):
            sketch.query(**case.needs)

    yield "update", make, lambda sketch: sketch.update(**last), bytes_of
    batch = _columns([three, last])
    yield "update_many", make, lambda sketch: sketch.update_many(**batch), bytes_of
    yield "query", make, ask, bytes_of
    yield "to_bytes", make, lambda sketch: sketch.to_bytes(), bytes_of
    yield "copy", make, lambda sketch: sketch.copy(), bytes_of

    def pair() -> tuple[Sketch, Sketch]:
        operand = build(case, other)
        return make(), operand

    if _merges(case):
        yield (
            "merge",
            pair,
            lambda both: both[0].merge(both[1]),
            lambda both: (bytes_of(both[0]), both[1].to_bytes()),
        )

    def bank() -> Bank[Sketch]:
        filled = Bank(case.make())
        filled.update_many(["a", "b"] * 5, **_columns(block))
        return filled

    def frames_of(filled: Bank[Sketch]) -> dict[Any, bytes]:
        filled.update_many("a", **_columns([after]))
        return filled.to_bytes()

    fed = ["c", "a"]
    yield "Bank.update_many", bank, lambda filled: filled.update_many(fed, **batch), frames_of
    yield "Bank.to_bytes", bank, lambda filled: filled.to_bytes(), frames_of
    yield "Bank[key]", bank, lambda filled: filled["a"], frames_of


def _rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arguments of ``update`` from those of ``update_many``."""
    size = max(len(column) for column in columns.values() if np.ndim(column))
    lists = {
        name: column.tolist() if isinstance(column, np.ndarray) else column
        for name, column in columns.items()
    }
    return [
        {name: each[i] if isinstance(each, list) else each for name, each in lists.items()}
        for i in range(size)
    ]


def _merges(case: SketchCase) -> bool:
    try:
        case.make().merge(case.make())
    except IncompatibleSketchError:
        return False
    return True


@_of_examples
def order_does_not_matter(case: SketchCase, events: list[Event], data: Any) -> None:
    """Any order of the events gives the same bytes."""
    assert build(case, data.draw(st.permutations(events))) == build(case, events)


@_of_examples
def duplicates_do_not_matter(case: SketchCase, events: list[Event], data: Any) -> None:
    """Adding an event again changes nothing."""
    again = [event for event in events if data.draw(st.booleans())]
    assert build(case, [*events, *again]) == build(case, events)


def shifting_all_times_shifts_nothing_else(case: SketchCase) -> None:
    """The same events far in the future, far in the past, or across 0, give the same answers."""
    assert case.time is not None
    name = case.time

    def body(events: Sequence[Event], by: int) -> None:
        here = build(case, events)
        there = build(case, [{**event, name: event[name] + by} for event in events])
        assert there.latest == (None if here.latest is None else here.latest + by)
        for question in case.questions(events):
            moved = dict(question)
            if question.get("now") is not None:
                moved["now"] = question["now"] + by
            assert there.query(**moved) == here.query(**question)

    unit = _unit(case.make())
    past, future = (-(2**62), 2**62) if unit is None else YEARS[unit]
    room = 0 if unit is None else 10_000  # for the events, which begin near 0, and questions
    far = st.sampled_from([-1_000, 1, 10**6, future - room, past + room])
    _examples(case, body, events=case.events, by=far)
    body(_rows_of(case.stream(300)), by=1)


LAWS: Sequence[Callable[[SketchCase], None]] = (
    an_empty_sketch_answers_zero,
    answers_hold,
    batch_equals_scalar,
    batching_does_not_matter,
    long_batches_equal_short_ones,
    a_bank_is_many_sketches,
    a_bank_answers_for_all_its_keys,
    banks_merge_key_by_key,
    an_empty_batch_changes_nothing,
    merging_with_empty_is_identity,
    merging_commutes,
    merging_associates,
    merging_equals_one_pass,
    a_merged_sketch_can_be_updated,
    operands_are_left_alone,
    questions_change_nothing,
    each_setting_must_agree_to_merge,
    bad_updates_change_nothing,
    bytes_round_trip,
    many_are_encoded_like_one,
    truncated_bytes_are_refused,
    mutated_bytes_are_refused_or_harmless,
    bytes_are_the_same_in_every_process,
    memory_is_bounded,
    threads_may_read_at_once,
    interrupted_calls_lose_nothing,
)
