"""The families: which events to add, which questions to ask, and the exact answers."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

import recency
from recency.decay import (
    Chordal,
    Exponential,
    FiniteExponential,
    NoDecay,
    PolyExponential,
    Polynomial,
    SlidingWindow,
)

TOP, BOTTOM = 2**63 - 1, -(2**63) + 1  # of times; BOTTOM − 1 is no time
STEPS = [0, 0, 0, 1, 1, 2, 7, 40]
EDGES = [BOTTOM, -(2**62), -(2**53) - 1, 0, 2**31, 2**53 + 1, 2**62 + 1, TOP]
FLOAT_SLACK = Fraction(1, 10**9)  # of sums and shares of products of floats
NO_TIMES = [2**63, -(2**63), 1.5, "1", True, None]
NO_COUNTS = [-1, 2**63, 1.5, True, None, "1", math.nan]
NO_NUMBERS = [math.nan, math.inf, -math.inf, True, None, "1", 10**400]
NO_ITEMS = [None, True, 1.5, 2**63, -(2**63) - 1, (1,)]
FEW_IDS = [0, 1, -1, "a", b"a"]
UNIQUE, FEW, SOME = {"ids": "unique"}, {"ids": "few"}, {"ids": "some"}  # settings of families
RW, COPIES, RANGES = {"counter": "rw"}, {"copies": 3}, {"sampler": "range"}


def room_of(total):
    """Of sums from 2⁵³ on, and shares of them, whose summands may be integers that were rounded."""
    return 2.0**-48 if total >= 2**53 else 0


@dataclass
class Asked:
    """A question, its exact answer (between two numbers; None: there is none), its guarantee."""

    method: str
    arguments: dict
    truth: Any = None
    error_of: Any = None  # what the guarantee is relative to
    slack: Any = 0
    is_certain: bool = False
    is_exact: bool = False
    room: float = 0  # of exact answers: how wide, relatively, they may be
    upper_is_certain: bool = False
    lower_is_certain: bool = False
    may_be_unknown: bool = False
    check: Any = None  # for answers that are no estimates


@dataclass(frozen=True)
class IsText:
    """A predicate that can be printed."""

    def __call__(self, items):
        return np.array([isinstance(item, str) for item in items], dtype=bool)


class Family:
    """What the families share: a clock, windows, bad arguments. One is made for each episode."""

    sketch: str
    kinds: ClassVar[list[str]] = ["query"]
    is_ordered = False
    merges = True
    is_bounded = False  # whether merging costs accuracy
    is_set = False
    one_pass = True
    summand: str | None = None  # of a total that must stay within int64
    ids: str | None = None  # "unique", "few", or "some", where others have none

    def __init__(self, rng, confidence=None):
        self.rng, self.made = rng, 0
        self.base = rng.choice([0, 0, 0, 1000, 2**53 - 50, -(2**62), BOTTOM, TOP - 300])
        self.is_wild = rng.random() < 0.25  # gaps between the edges of int64
        self.is_large = rng.random() < 0.3  # values at the limits
        self.is_huge = self.is_large and rng.random() < 0.5
        self.window = rng.choice([None, 1, 17, 60, 60, 200, 2**53 + 1, TOP])
        self.confidence = (
            rng.choice([0.8, 1 - 1e-6, 1 - 1e-6]) if confidence is None else confidence
        )
        self.capacity = rng.choice([1, 8, 8])
        self.settings = self.choose()
        self.window = self.settings.get("window")
        self.group = self.settings.get("confidence")

    def choose(self):
        raise NotImplementedError

    def asked(self, kind, rows, latest):
        return getattr(self, f"ask_{kind}")(rows, latest)

    @property
    def needs_streams(self):
        return self.ids == "some"

    def arguments(self, stream):
        return {**self.settings, **({"stream": stream} if self.needs_streams else {})}

    def code(self, stream):
        return (
            f"{self.sketch}({', '.join(f'{k}={v!r}' for k, v in self.arguments(stream).items())})"
        )

    def make(self, stream):
        return getattr(recency, self.sketch)(**self.arguments(stream))

    def placed(self, events, latest):
        return [(event["at"], event) for event in events]

    def refuses(self, rows):
        return self.summand is not None and self.room(rows) < 0

    # --- events ---

    def event(self, party, known, has_id):
        """A good event; sometimes one that is known to be there already."""
        if known and self.is_set | (self.ids == "few") and self.rng.random() < 0.3:
            again = self.rng.choice(known)
            if ("id" in again) == self.has_id(has_id):
                return {**again, "at": self.time(party.latest)} if self.is_ordered else again
        self.made += 1
        event = {**self.content(party), "at": self.time(party.latest)}
        if self.has_id(has_id):
            event["id"] = self.rng.choice(FEW_IDS) if self.ids == "few" else f"e{self.made}"
        return event

    def large(self, party):
        """Large numbers, or small ones and, now and then, much of the room that is left, or all."""
        if not self.is_huge:
            return self.rng.choice([1, 2**31, 2**53 + 1, 2**55 + 1])
        room = self.room(party.rows)
        much = [2**59, room // 5, room // 3, max(room - 200, 0), max(room - 20, 0), room]
        return self.rng.choice(much) if self.rng.random() < 0.1 else self.rng.randrange(3)

    def room(self, rows):
        return TOP - sum(event[self.summand] for _, event in rows)

    def fitting(self, rows, events):
        """Those of some events that there is room for."""
        if self.summand is None:
            return events
        room, fitting = self.room(rows), []
        for event in events:
            if event[self.summand] <= room:
                room -= event[self.summand]
                fitting.append(event)
        return fitting

    def has_id(self, wanted):
        return self.ids in ("unique", "few") or (self.ids == "some" and wanted)

    def content(self, party):
        raise NotImplementedError

    def time(self, latest):
        rng = self.rng
        if self.is_ordered and latest is not None:
            leap = rng.choice([0, 0, 2**31, 2**53 + 1, 2**62, TOP]) if self.is_wild else 0
            return min(latest + rng.choice(STEPS) + leap * (rng.random() < 0.1), TOP)
        near = self.base + rng.randrange(250)
        if self.is_wild and rng.random() < 0.3:
            near = rng.choice(EDGES) + rng.randint(-3, 3)
        return min(max(near, BOTTOM), TOP)

    bad: ClassVar[dict[str, list]] = {}

    def bad_event(self, party):
        """A good event but for one field; or a late one, where that is refused."""
        event = self.event(party, [], True)
        late = self.is_ordered and party.latest not in (None, BOTTOM)
        if late and self.settings.get("late") != "clamp" and self.rng.random() < 0.3:
            return {**event, "at": party.latest - self.rng.choice([1, party.latest - BOTTOM])}
        bad = {"at": NO_TIMES, **self.bad, **({"id": [1.5, 2**63, ()]} if "id" in event else {})}
        name = self.rng.choice(sorted(bad))
        return {**event, name: self.rng.choice(bad[name])}

    # --- questions ---

    def ask_at(self, latest):
        """``now``, as an argument, if it is one, and as a time."""
        if latest is None or self.rng.random() < 0.4:
            return {}, latest or 0
        later = self.rng.choice([0, 1, 3, 30, 2**53 + 1 if self.is_wild else 100, TOP])
        now = min(latest + later, TOP) if later < TOP or self.is_wild else latest
        return {"now": now}, now

    def ask_window(self, rows, latest):
        """A window, near the edges of events, as arguments, and the events in it."""
        arguments, now = self.ask_at(latest)
        ages = [now - when for when, _ in self.rng.sample(rows, min(len(rows), 9))]
        width = self.rng.choice([1, self.window or TOP, *ages]) + self.rng.choice([-1, 0, 1])
        if self.rng.random() < 0.8:
            width = min(max(width, 1), self.window or TOP)
            arguments["window"] = width
        else:
            width = self.window or 2**64
        return arguments, [row for row in rows if row[0] > now - width]

    def bad_question(self, latest):
        bad = [{"now": 2**63}, {"now": 1.5}, {"now": -(2**63)}]
        if latest is not None and latest > BOTTOM:
            bad += [{"now": latest - 1}] * 3
        if "window" in self.settings and self.sketch not in ("NthRecentWave", "DecayedSample"):
            bad += [{"window": each} for each in (0, -1, 2**63, 1.5, True)]
            bad += [] if self.window in (None, TOP) else [{"window": self.window + 1}]
        return {**self.rng.choice(bad), **self.needs()}

    def needs(self):
        return {}


# --- certain counters -------------------------------------------------------------------------


class _Counter(Family):
    is_ordered = is_bounded = True
    summand = "value"
    bad: ClassVar = {"value": NO_COUNTS}
    late, by = "raise", "time"

    def choose(self):
        settings = {"window": self.window, "relative_error": self.rng.choice([0.5, 0.2, 0.05])}
        return {**settings, "late": self.late, "by": self.by}

    def content(self, party):
        if not self.is_large:
            return {"value": self.rng.choice([0, 1, 1, 1, 2, 3, 1000])}
        return {"value": self.large(party)}

    def ask_query(self, rows, latest):
        arguments, inside = self.ask_window(rows, latest)
        total = sum(event["value"] for _, event in inside)
        return Asked("query", arguments, (total, total), error_of=total, is_certain=True)


class Clamping(_Counter):
    sketch, late, one_pass = "ExponentialHistogram", "clamp", False

    def time(self, latest):
        return self.rng.choice([super().time(latest), super().time(None)])

    def placed(self, events, latest):
        return [(max(e["at"], BOTTOM if latest is None else latest), e) for e in events]


class ByCount(_Counter):
    sketch, by, merges = "DeterministicWave", "count", False

    def event(self, party, known, has_id):
        return self.content(party)

    def bad_event(self, party):
        return self.rng.choice([{"value": self.rng.choice(NO_COUNTS)}, {"value": 1, "at": 5}])

    def placed(self, events, latest):
        return [((latest or 0) + i, event) for i, event in enumerate(events, 1)]

    def ask_at(self, latest):
        return {}, latest or 0

    def bad_question(self, latest):
        return self.rng.choice([{"window": 0}, {"now": latest or 1}])


class NthRecent(Family):
    sketch, is_ordered = "NthRecentWave", True
    bad: ClassVar = {"value": [-1, 2, 1.0, True, None]}

    def choose(self):
        return {"window": self.window, "relative_error": self.rng.choice([0.5, 0.2, 0.05])}

    def content(self, party):
        return {"value": self.rng.choice([0, 1, 1, 1])}

    def ask_query(self, rows, latest):
        arguments, now = self.ask_at(latest)
        ones = sorted((when for when, event in rows if event["value"]), reverse=True)
        n = self.rng.choice([1, 2, len(ones), len(ones) + 1, self.rng.randint(1, len(ones) + 1)])
        asked = Asked("query", {"n": max(n, 1), **arguments})
        if 1 <= n <= len(ones):
            age = now - ones[n - 1]
            asked.truth, asked.is_certain = (age, age), True
            asked.may_be_unknown = self.window is not None and age >= self.window
            asked.error_of = None if asked.may_be_unknown else age
        return asked


# --- samples ----------------------------------------------------------------------------------


class _Sampled(Family):
    def choose(self):
        settings = {"window": self.window, "confidence": self.confidence, "capacity": self.capacity}
        return {**settings, "seed": self.rng.randrange(2**31)}


class Distinct(_Sampled):
    sketch, is_set = "RandomizedWave", True
    kinds: ClassVar = ["query", "where", "sample"]
    bad: ClassVar = {"item": NO_ITEMS}

    def choose(self):
        items = [*range(-3, 30), BOTTOM - 1, TOP, "", "ü", b"", *map(str, range(9))]
        self.items = items[: self.rng.choice([3, 20, 99])] + [f"i{i}" for i in range(200)]
        self.items = self.items[: self.rng.choice([5, 60, 300])]
        return {**super().choose(), "keep_items": self.rng.random() < 0.5}

    def content(self, party):
        return {"item": self.rng.choice(self.items)}

    def ask_query(self, rows, latest, where=None):
        arguments, inside = self.ask_window(rows, latest)
        items = {event["item"] for _, event in inside}
        found = sum(where is None or isinstance(item, str) for item in items)
        asked = Asked("query", arguments, (found, found), is_exact=len(items) <= self.capacity)
        asked.error_of = None if where else found
        asked.arguments |= {"where": where} if where else {}
        return asked

    def ask_where(self, rows, latest):
        return self.ask_query(rows, latest, IsText()) if self.settings["keep_items"] else None

    def ask_sample(self, rows, latest):
        if not self.settings["keep_items"]:
            return None
        arguments, inside = self.ask_window(rows, latest)
        items = {event["item"] for _, event in inside}

        def check(sample, sketch):
            assert len(set(sample)) == len(sample), "an item twice"
            assert set(sample) <= items, "an item that is not in the window"
            assert len(items) > self.capacity or len(sample) == len(items), "not all of few items"

        return Asked("sample", arguments, check=check)


class _Sum(_Sampled):
    sketch = "SumWave"
    bad: ClassVar = {"value": [*NO_NUMBERS, -1, -5e-324, 2.0**961]}

    def content(self, party):
        plain, large = [0, 1, 1, 2.5, 7, 100, -0.0], [5e-324, 1, 2**53 + 1, 2.0**900, 2.0**960]
        return {"value": self.rng.choice(large if self.is_large else plain)}

    def ask_query(self, rows, latest):
        arguments, inside = self.ask_window(rows, latest)
        values = [float(event["value"]) for _, event in inside if event["value"]]
        total = math.fsum(values)
        asked = Asked("query", arguments, (total,) * 2, total, room=room_of(total))
        asked.is_exact = len(values) <= self.capacity
        return asked


class _Quantile(_Sampled):
    sketch = "QuantileWave"
    kinds: ClassVar = ["query", "rank", "count"]
    bad: ClassVar = {"value": NO_NUMBERS}

    def content(self, party):
        plain, large = [0, -0.0, 1, 2, 2.5, -3], [5e-324, -(2.0**1023), 2**53 + 1, 1.7e308]
        return {"value": float(self.rng.choice(large if self.is_large else plain) + self.made % 7)}

    def ask_query(self, rows, latest):
        arguments, inside = self.ask_window(rows, latest)
        q = self.rng.choice([0, 0.25, 0.5, 0.75, 1])
        asked = Asked("query", {"q": q, **arguments}, is_exact=len(inside) <= self.capacity)
        if inside:
            values = sorted(float(event["value"]) for _, event in inside)
            truth = values[max(math.ceil(q * len(values)), 1) - 1]
            asked.truth, asked.may_be_unknown = (truth, truth), not asked.is_exact
        return asked

    def ask_rank(self, rows, latest):
        arguments, inside = self.ask_window(rows, latest)
        value = self.content(None)["value"]
        asked = Asked("rank", {"value": value, **arguments}, error_of=1, slack=FLOAT_SLACK)
        asked.is_exact = len(inside) <= self.capacity
        if inside:
            share = Fraction(sum(event["value"] <= value for _, event in inside), len(inside))
            asked.truth, asked.may_be_unknown = (share, share), not asked.is_exact
        return asked

    def ask_count(self, rows, latest):
        arguments, inside = self.ask_window(rows, latest)
        return Asked("count", arguments, (len(inside),) * 2, is_exact=len(inside) <= self.capacity)


# --- cells ------------------------------------------------------------------------------------


class _Cells(Family):
    bad: ClassVar = {"item": NO_ITEMS, "weight": NO_COUNTS}
    counter, summand = "eh", "weight"
    items: ClassVar = [0, 1, 7, TOP, BOTTOM - 1, "a", "ü", b"a", ""]

    def choose(self):
        settings = {"window": self.window, "counter": self.counter, "relative_error": 0.5}
        settings |= {"seed": self.rng.randrange(2**31), "width": 8, "depth": 3, "cell_error": 0.25}
        sampled = {"cell_capacity": 8, "confidence": min(self.confidence, 0.95)}
        return {**settings, **(sampled if self.counter == "rw" else {})}

    @property
    def is_ordered(self):
        return self.counter != "rw"

    @property
    def is_bounded(self):
        return self.counter != "rw"

    def content(self, party):
        item = self.rng.choice(self.items[: self.rng.choice([1, 3, 99])])
        if not self.is_large:
            return {"item": item, "weight": self.rng.choice([0, 1, 1, 1, 5, 1000])}
        if self.counter == "rw":
            return {"item": item, "weight": self.rng.choice([1, 2**40, 2**53])}
        return {"item": item, "weight": self.large(party)}

    def needs(self):
        return {"item": self.items[0]}

    def counted(self, rows, latest):
        arguments, inside = self.ask_window(rows, latest)
        counts = Counter()
        for _, event in inside:
            counts[event["item"]] += event["weight"]
        return arguments, counts, sum(counts.values())

    def counting(self, method, arguments, truth, error_of):
        sure = self.counter != "rw"
        return Asked(method, arguments, (truth, truth), error_of, upper_is_certain=sure)

    def ask_query(self, rows, latest):
        arguments, counts, total = self.counted(rows, latest)
        item = self.rng.choice(self.items)
        return self.counting("query", {"item": item, **arguments}, counts[item], total)

    def ask_total(self, rows, latest):
        arguments, _, total = self.counted(rows, latest)
        asked = self.counting("total", arguments, total, None)
        asked.is_certain = self.counter != "rw"
        return asked


class _Ecm(_Cells):
    sketch = "EcmSketch"
    kinds: ClassVar = ["query", "total", "self_join"]

    def ask_self_join(self, rows, latest):
        arguments, counts, _ = self.counted(rows, latest)
        return self.counting("self_join", arguments, sum(n * n for n in counts.values()), None)


class _Dyadic(_Cells):
    sketch = "DyadicEcm"
    kinds: ClassVar = ["query", "total", "range_count", "quantile", "heavy_hitters"]
    bad: ClassVar = {"item": [-1, 2**63, "a", 1.5, None, True], "weight": NO_COUNTS}
    bits = (6, 63)

    def choose(self):
        bits = self.rng.choice(self.bits)
        self.items = sorted({0, 1, 2, 31, 63, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 2) + 5})
        settings = {"min_threshold": 0.1, "universe_bits": bits, "range_depth": 2}
        return {**super().choose(), **settings, "depth": 3 + (bits == 6)}

    def ask_range_count(self, rows, latest):
        arguments, counts, _ = self.counted(rows, latest)
        low, high = sorted(self.rng.choices([*self.items, 5, 40], k=2))
        truth = sum(n for item, n in counts.items() if low <= item <= high)
        return self.counting("range_count", {"lo": low, "hi": high, **arguments}, truth, None)

    def ask_quantile(self, rows, latest):
        arguments, counts, total = self.counted(rows, latest)
        q = self.rng.choice([0, 0.25, 0.5, 0.75, 1])
        if not total:  # there may be an answer where it is not sure that there is nothing
            return Asked("quantile", {"q": q, **arguments}, check=lambda answer, sketch: None)
        upto, target = 0, max(Fraction(q) * total, 1)
        for item in sorted(counts):
            upto += counts[item]
            if upto >= target:
                break
        asked = self.counting("quantile", {"q": q, **arguments}, item, None)
        asked.upper_is_certain, asked.lower_is_certain = False, self.counter != "rw"
        return asked

    def ask_heavy_hitters(self, rows, latest):
        arguments, counts, total = self.counted(rows, latest)
        share = self.rng.choice([0.1, 0.2, 0.5])
        hashed = self.settings.get("names", False)  # an item without a name is an integer

        def check(found, sketch):
            values = [estimate.value for _, estimate in found]
            assert values == sorted(values, reverse=True), "not the largest first"
            items = [item for item, _ in found]
            assert len(set(items)) == len(items), "an item twice"
            for item, estimate in found:
                assert estimate.lower <= estimate.value <= estimate.upper
                surely = self.counter != "rw" and not (hashed and item not in counts)
                assert not surely or counts[item] <= estimate.upper, (item, estimate, counts)
            least = (
                total + 1
                if math.isinf(sketch.guarantee)
                else ((Fraction(share) + Fraction(sketch.guarantee)) * total)
            )
            missing = {item for item, n in counts.items() if n >= least > 0} - set(items)
            unnamed = hashed and any(item not in counts for item in items)
            assert not missing or unnamed or self.counter == "rw", f"{missing} not found"

        return Asked("heavy_hitters", {"threshold": share, **arguments}, check=check)


class DyadicNames(_Dyadic):
    kinds: ClassVar = ["query", "total", "heavy_hitters"]
    bad: ClassVar = {"item": NO_ITEMS, "weight": NO_COUNTS}
    ids, bits = "few", (6, 16)

    def choose(self):
        settings = super().choose()
        self.items = _Cells.items
        return {**settings, "names": True, "name_capacity": 3}


# --- decay ------------------------------------------------------------------------------------


def faded(decay, ages):
    """Values of a decay; a window is decided by whole numbers, other decays have no steps there."""
    if isinstance(decay, SlidingWindow):
        return [float(age < Fraction(decay.width)) for age in ages]
    below = [float(age) if float(age) <= age else math.nextafter(age, 0) for age in ages]
    return decay.at(np.array(below)).tolist()


@dataclass(frozen=True)
class Element:
    value: float
    weight: float
    decayed: float


def weigh(elements):
    return math.fsum(each.decayed for each in elements)


def number(elements):
    return math.fsum(each.decayed / each.weight for each in elements)


def ratio(part, whole):
    """None where there is nothing to ask about."""
    return part / whole if whole else None


def quantile(elements, q):
    """Between which values it is, for sums of floats may round to either side."""
    total, found = weigh(elements), []
    for nearly in (1 - 1e-9, 1 + 1e-9):
        for value in sorted({each.value for each in elements if each.decayed}):
            if weigh([e for e in elements if e.value <= value]) >= q * total * nearly:
                break
        found += [value] if total else []
    return found or None


def up_to(elements, limit):
    return [each for each in elements if each.value <= limit]


def from_on(elements, limit):
    return [each for each in elements if each.value >= limit]


class _Fading(Family):
    """Sums of decayed weights. ``asks``: method, parameter, and truth, a number, a pair or None."""

    bad: ClassVar = {"value": NO_NUMBERS, "weight": [*NO_NUMBERS, -1, -5e-324, 2.0**961]}
    values: ClassVar = [0, -0.0, 1, 2.5, 3, 7, 9]
    asks: ClassVar[dict] = {}
    frequent = ""
    is_whole = False

    @property
    def kinds(self):
        return [*self.asks, self.frequent]

    def content(self, party):
        plain, large = [0, 1, 1, 2.5, 40, 1000], [2.0**-60, 1, 2.0**53 + 2, 2.0**900, 2.0**960]
        weight = self.rng.choice(large if self.is_large else plain)
        return {"value": self.rng.choice(self.values), "weight": weight}

    def elements(self, rows, now, decay):
        events = [event for _, event in rows if event["weight"]]
        if self.is_set:
            names = ("id", "value", "weight", "at")
            key = [(type(e["id"]), *(e[name] for name in names)) for e in events]
            events = dict(zip(key, events, strict=True)).values()
        weights = [float(event["weight"]) for event in events]
        g = faded(decay, [now - event["at"] for event in events])
        decayed = [w * x for w, x in zip(weights, g, strict=True)]
        decayed = map(math.floor, decayed) if self.is_whole else decayed
        values = [float(event["value"]) for event in events]
        return list(map(Element, values, weights, decayed))

    def elements_asked(self, rows, latest):
        """Arguments, elements, whether nothing can have been forgotten."""
        raise NotImplementedError

    def asked(self, kind, rows, latest):
        arguments, elements, is_exact = self.elements_asked(rows, latest)
        if kind == self.frequent:
            return self.frequent_asked(arguments, elements, is_exact)
        parameter, truth_of = self.asks[kind]
        argument = self.rng.choice([0, 0.25, 0.5, 0.75, 1] if parameter == "q" else self.values)
        arguments |= {parameter: argument} if parameter else {}
        truth = truth_of(elements, argument)
        if truth is None:
            return Asked(kind, arguments)
        asked = Asked(kind, arguments, truth if isinstance(truth, list) else [truth] * 2)
        asked.slack = 0 if isinstance(truth, list) else FLOAT_SLACK
        asked.is_exact, asked.may_be_unknown = is_exact, not is_exact
        asked.room = room_of(weigh(elements))
        if kind == "query" and self.has_guarantee(elements):
            asked.error_of = truth
        return asked

    def has_guarantee(self, elements):
        return True

    def frequent_asked(self, arguments, elements, is_exact):
        share, sums = self.rng.choice([0.1, 0.4, 0.7]), defaultdict(float)
        for each in elements:
            sums[each.value] += each.decayed
        least = share * weigh(elements)

        def check(found, sketch):
            values = [estimate.value for _, estimate in found]
            assert values == sorted(values, reverse=True), "not the largest first"
            for value, estimate in found:
                assert estimate.lower <= estimate.value <= estimate.upper
                close = math.isclose(estimate.value, sums[value], rel_tol=1e-9, abs_tol=1e-300)
                assert close or not estimate.exact, (value, estimate, sums[value])
            known = {value for value, _ in found}
            missing = {v for v, each in sums.items() if each > least * (1 + 1e-9)} - known
            assert not (is_exact and missing), f"{missing} not found"
            assert not is_exact or all(sums[value] >= least * (1 - 1e-9) for value in known)

        return Asked(self.frequent, {"threshold": share, **arguments}, check=check)


class _DecayedSample(_Fading):
    sketch, is_set, ids = "DecayedSample", True, "few"
    copies, sampler, decay, frequent = 1, "uniform", None, "frequent_items"
    asks: ClassVar = {
        "query": (None, lambda elements, x: weigh(elements)),
        "count": (None, lambda elements, x: number(elements)),
        "mean": (None, lambda elements, x: ratio(weigh(elements), number(elements))),
        "rank": ("value", lambda elements, x: ratio(weigh(up_to(elements, x)), weigh(elements))),
        "correlated_sum": ("threshold", lambda elements, x: weigh(from_on(elements, x))),
        "quantile": ("q", quantile),
    }
    decays: ClassVar = [
        *(NoDecay(), Exponential(half_life=7), Exponential(1e-12), Polynomial(1.5)),
        *(PolyExponential(1, 2, scale=4), Chordal(45), FiniteExponential(0.1, 0.05)),
    ]

    def choose(self):
        self.is_whole = self.sampler == "range" and self.decay is not None
        if self.sampler == "range":  # which has rare clusters of hits
            self.confidence = min(self.confidence, 0.95)
        settings = {"confidence": self.confidence, "copies": self.copies, "sampler": self.sampler}
        settings |= {"decay": self.decay, "capacity": self.capacity}
        settings["seed"] = self.rng.randrange(2**31)
        return {**settings, "window": self.window if self.decay is None else None}

    def content(self, party):
        content = super().content(party)
        if self.sampler == "range":
            content["weight"] = self.rng.choice([0, 1, 2, 60, 1000, 2**20 if self.is_large else 7])
        return content

    def elements_asked(self, rows, latest):
        arguments, now = self.ask_at(latest)
        decay = self.decay
        if decay is None:
            arguments["decay"] = decay = self.chosen(rows, now)
        kept = self.elements(rows, now, NoDecay())
        is_exact = self.decay is None and len(kept) <= self.capacity
        return arguments, self.elements(rows, now, decay), is_exact

    def chosen(self, rows, now):
        ages = [now - when for when, _ in self.rng.sample(rows, min(len(rows), 9))]
        widths = [self.window or TOP, 1, *(age + 1 for age in ages)]
        width = min(max(self.rng.choice(widths), 1), self.window or TOP)
        window = SlidingWindow(math.nextafter(width, 0) if float(width) > width else width)
        usual = [d for d in self.decays if not self.window or (d.reach or 2**63) <= self.window]
        return self.rng.choice([window, *usual])

    def has_guarantee(self, elements):
        heaviest = max((each.weight for each in elements), default=0)
        return self.decay is None or weigh(elements) >= self.capacity / 2**32 * heaviest


class _DecayedFixed(_DecayedSample):
    choices: ClassVar = [
        *(Exponential(half_life=7), Exponential(2.0**-60), Polynomial(1.5), Polynomial(0.01)),
        *(Chordal(45), Chordal(2.0**63), SlidingWindow(60), PolyExponential(1, 2, scale=4)),
        *(FiniteExponential(0.1, 0.05), FiniteExponential(0.3, 0.125), NoDecay()),
    ]

    def choose(self):
        self.decay = self.rng.choice(self.choices)
        return super().choose()


class _Merging(_Fading):
    sketch, decay, frequent = "WeightBasedMergingHistogram", Polynomial(1.5), "heavy_hitters"
    bad: ClassVar = {**_Fading.bad, "value": [*NO_NUMBERS, -1, -5e-324, 1001]}
    asks: ClassVar = {
        "query": ("threshold", lambda elements, x: weigh(from_on(elements, x))),
        "count": ("threshold", lambda elements, x: number(from_on(elements, x))),
        "relative_frequency": (
            "value",
            lambda elements, x: ratio(weigh(up_to(from_on(elements, x), x)), weigh(elements)),
        ),
        "quantile": ("q", quantile),
    }

    def choose(self):
        settings = {"decay": self.decay, "confidence": self.confidence, "max_value": 1000}
        return {**settings, "capacity": self.capacity, "seed": self.rng.randrange(2**31)}

    def elements_asked(self, rows, latest):
        arguments, now = self.ask_at(latest)
        elements = self.elements(rows, now, self.decay)
        return arguments, elements, len(elements) <= self.capacity


class MergingFinite(_Merging):
    """All is kept, or refused."""

    ids = "few"

    def choose(self):
        self.decay = FiniteExponential(*self.rng.choice([(0.1, 0.05), (0.3, 0.125), (1e-18, 0.5)]))
        self.capacity = 40
        return super().choose()

    def refuses(self, rows):
        clock = max((when for when, _ in rows), default=0)
        elements = self.elements(rows, clock, self.decay)
        return sum(each.decayed > 0 for each in elements) > self.capacity

    def elements_asked(self, rows, latest):
        arguments, elements, _ = super().elements_asked(rows, latest)
        return arguments, elements, True


def _variants(family, **variants):
    return [type(name, (family,), settings) for name, settings in variants.items()]


FAMILIES = [
    *_variants(
        _Counter,
        Histogram={"sketch": "ExponentialHistogram"},
        Wave={"sketch": "DeterministicWave"},
    ),
    *(Clamping, ByCount, NthRecent, Distinct),
    *_variants(_Sum, SumUnique=UNIQUE, SumFew=FEW, SumSome=SOME),
    *_variants(_Quantile, QuantileUnique=UNIQUE, QuantileFew=FEW, QuantileSome=SOME),
    *_variants(_Ecm, EcmHistogram={}, EcmWave={"counter": "dw"}),
    *_variants(_Ecm, EcmUnique=RW | UNIQUE, EcmFew=RW | FEW, EcmSome=RW | SOME),
    *_variants(_Dyadic, DyadicHistogram={}, DyadicWave={"counter": "dw"}),
    *_variants(_Dyadic, DyadicUnique=RW | UNIQUE | {"bits": (6, 16)}),
    DyadicNames,
    *_variants(_DecayedSample, Decayed={}, DecayedCopies=COPIES, DecayedRanges=RANGES),
    *_variants(_DecayedFixed, Fixed={}, FixedCopies=COPIES, FixedRanges=RANGES),
    *_variants(_Merging, MergingUnique=UNIQUE, MergingFew=FEW),
    *_variants(_Merging, MergingSome=SOME | {"decay": NoDecay()}),
    MergingFinite,
]

CERTAIN = _Counter, NthRecent, MergingFinite
MAY_MISS = [family for family in FAMILIES if not issubclass(family, CERTAIN)]
