"""Random operations on a few sketches of one family, and what must hold after each of them."""

import math
import pickle
import random
from collections import defaultdict
from fractions import Fraction

import pytest

from accuracy.statistics import most_failures
from recency import NoAnswerError, decode_many, encode_many, loads, merge_all
from recency.errors import IncompatibleSketchError

PARTIES = 3
FALSE_ALARM = 1e-4  # of one test, at most, by chance: misses of intervals that hold with confidence
RARE = 1e-3  # doubt in answers of which a few are enough to tell; others need trials of their own
TINY = Fraction(1, 2**1000)  # absolute slack on sums of floats: products may underflow
REFUSED = (ValueError, TypeError)


class Party:
    """A sketch and the rows that were added: (when, event), in order of arrival."""

    def __init__(self, name, sketch, stream):
        self.name, self.sketch, self.stream = name, sketch, stream
        self.rows, self.is_merged = [], False

    @property
    def latest(self):
        return max((when for when, _ in self.rows), default=None)


class Episode:
    """One run with one seed. ``operations`` has what was done, as code."""

    def __init__(self, family, seed, confidence=None):
        self.seed, self.rng = seed, random.Random(f"{family.__name__} {seed}")
        self.family = family(self.rng, confidence)
        self.operations, self.trials = [], []
        self.streams = 0
        self.shadows = []  # sketches that were copied and left behind, with their bytes
        self.parties = [self.fresh(f"s{i}") for i in range(PARTIES)]

    def run(self, steps):
        doings = {self.put: 10, self.ask: 8, self.refuse: 3, self.go_on_as_a_copy: 3}
        doings |= {self.merge: 1, self.merge_many: 0.5, self.together: 0.5, self.refuse_to_ask: 1}
        for _ in range(steps):
            self.rng.choices(list(doings), doings.values())[0]()
        party, other = self.rng.sample(self.parties, 2)
        for each in (party, other, party):
            self.put(each, 150)
        for each in self.parties:
            self.check_one_pass(each)
        if self.rng.random() < 0.5:
            self.merge_two(party, other)
            self.check_one_pass(party)
        for sketch, before in self.shadows:
            assert sketch.to_bytes() == before, "a sketch changed with its copy"
        for kind in self.family.kinds:
            self.ask(party, kind, is_trial=True)

    def one_trial(self):
        """Return whether an interval misses, for a question that does not depend on the sketch.

        Each trial has its own sketch, since answers of one sketch miss together.
        """
        party, other = self.rng.sample(self.parties, 2)
        for each in (party, other):
            self.put(each, 150)
        if self.rng.random() < 0.5:
            self.merge_two(party, other)
        for _ in range(20):
            self.ask(party, is_trial=True)
            if self.trials:
                return

    # --- operations ---

    def fresh(self, name):
        self.streams += 1
        stream = self.streams if self.family.needs_streams else 0
        self.operations.append(f"{name} = {self.family.code(stream)}")
        return Party(name, self.family.make(stream), stream)

    def any_party(self):
        return self.rng.choice(self.parties)

    def call(self, party, method, arguments, result=""):
        code = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        self.operations.append(f"{result}{party.name}.{method}({code})")
        return getattr(party.sketch, method)(**arguments)

    def put(self, party=None, size=None):
        """Add one event or a batch; more than the capacity must be refused."""
        party, family = party or self.any_party(), self.family
        known = [event for each in self.parties for _, event in each.rows[-50:]]
        single = size is None and self.rng.random() < 0.4
        size = 1 if single else size or self.rng.choice([0, 1, 2, 5, 20, 60, 150])
        has_id = self.rng.random() < 0.5  # where both kinds of events are allowed
        drawn = [family.event(party, known, has_id) for _ in range(max(size, 1))]
        events = drawn[:size]
        if not single and self.rng.random() < 0.9:
            events = family.fitting(party.rows, events)
        columns = {name: [event[name] for event in events] for name in drawn[0]}
        method, arguments = ("update", events[0]) if single else ("update_many", columns)
        rows = party.rows + family.placed(events, party.latest)
        if family.refuses(rows):
            self.refused(party, method, arguments)
        else:
            self.call(party, method, arguments)
            party.rows = rows
        assert party.sketch.latest == party.latest

    def refuse(self):
        """Add a bad event, alone or among good ones: it changes nothing."""
        party, family = self.any_party(), self.family
        bad = family.bad_event(party)
        if self.rng.random() < 0.5:
            self.refused(party, "update", bad)
            return
        events = [family.event(party, [], "id" in bad) for _ in range(self.rng.randrange(4))]
        events.insert(self.rng.randrange(len(events) + 1), bad)
        names = set.intersection(*map(set, events)) | set(bad)
        columns = {name: [event.get(name) for event in events] for name in sorted(names)}
        self.refused(party, "update_many", columns)

    def refused(self, party, method, arguments):
        # Bytes work in what waits: looking at them before is only one of two cases.
        before = party.sketch.to_bytes() if self.rng.random() < 0.5 else None
        with pytest.raises(REFUSED):
            self.call(party, method, arguments)
        assert party.sketch.latest == party.latest
        assert before is None or party.sketch.to_bytes() == before, "a refused update left traces"

    def go_on_as_a_copy(self):
        """Replace a sketch by one from bytes, a pickle or a copy."""
        party = self.any_party()
        old, name = party.sketch, party.name
        ways = {
            f"{name}.copy()": lambda: old.copy(),
            f"loads({name}.to_bytes())": lambda: loads(old.to_bytes()),
            f"pickle.loads(pickle.dumps({name}))": lambda: pickle.loads(pickle.dumps(old)),
        }
        way = self.rng.choice(list(ways))
        self.operations.append(f"{name} = {way}")
        party.sketch = ways[way]()
        assert type(party.sketch) is type(old)
        assert party.sketch == old
        assert party.sketch.to_bytes() == old.to_bytes(), "the copy has other bytes"
        assert party.sketch.latest == party.latest
        assert party.sketch.guarantee == old.guarantee
        self.shadows.append((old, old.to_bytes()))

    def merge(self):
        self.merge_two(*self.rng.sample(self.parties, 2))

    def merge_two(self, a, b):
        self.merge_into(a, [b], f"{a.name}.merge({b.name})", lambda: a.sketch.merge(b.sketch))

    def merge_many(self):
        a, *others = self.rng.sample(self.parties, self.rng.randint(2, PARTIES))
        names = ", ".join(each.name for each in (a, *others))
        sketches = [each.sketch for each in (a, *others)]
        code = f"{a.name} = merge_all([{names}])"
        self.merge_into(a, others, code, lambda: merge_all(sketches))

    def merge_into(self, a, others, code, work):
        self.operations.append(code)
        all_of_them = [a, *others]
        before = [each.sketch.to_bytes() for each in all_of_them]
        rows = [row for each in all_of_them for row in each.rows]
        if not self.family.merges or self.family.refuses(rows):
            with pytest.raises(ValueError if self.family.merges else IncompatibleSketchError):
                work()
            assert [each.sketch.to_bytes() for each in all_of_them] == before
            return
        merged = work()
        assert [each.sketch.to_bytes() for each in others] == before[1:], "an operand changed"
        filled = sum(bool(each.rows) for each in all_of_them) > 1
        a.is_merged = filled or any(each.is_merged for each in all_of_them)
        a.stream = min((each.stream for each in all_of_them if each.rows), default=a.stream)
        a.sketch, a.rows = merged, rows
        if self.family.is_set:
            alone = merged.to_bytes()
            assert merged.copy().merge(merged).to_bytes() == alone, "the same again is not the same"
        assert merged.latest == a.latest
        for other in others:  # which may not be merged a second time: equal coins, or order
            self.parties[self.parties.index(other)] = self.fresh(other.name)

    def together(self):
        """Many sketches at once must give the same as one by one."""
        sketches = [each.sketch for each in self.parties]
        frames = encode_many(sketches)
        assert frames == [sketch.to_bytes() for sketch in sketches]
        assert decode_many(frames) == sketches

    def check_one_pass(self, party):
        """Compare with one pass, where merging is exact or there was none."""
        family = self.family
        is_exact = not family.is_bounded and not family.needs_streams
        if not family.one_pass or (party.is_merged and not is_exact):
            return
        self.operations.append(f"{party.name} == one pass")
        events = [event for _, event in party.rows]
        if party.is_merged and (family.is_ordered or self.rng.random() < 0.5):
            events.sort(key=lambda event: event["at"])
        whole = family.make(party.stream)
        while events:
            begin = events[0].keys()
            size = next((i for i, e in enumerate(events) if e.keys() != begin), len(events))
            batch, events = events[:size], events[size:]
            whole.update_many(**{name: [event[name] for event in batch] for name in begin})
        assert party.sketch == whole, "not what one pass gives"
        assert party.sketch.to_bytes() == whole.to_bytes()

    # --- questions ---

    def ask(self, party=None, kind=None, is_trial=False):
        party = party or self.any_party()
        kind = kind or self.rng.choice(self.family.kinds)
        asked = self.family.asked(kind, party.rows, party.latest)
        if asked is None:
            return
        before = party.sketch.to_bytes() if self.rng.random() < 0.1 else None
        try:
            answer = self.call(party, asked.method, asked.arguments)
        except NoAnswerError:
            if asked.truth is None or asked.may_be_unknown or asked.check is not None:
                return
            raise
        assert before is None or party.sketch.to_bytes() == before, "asking changed something"
        if asked.check is not None:
            asked.check(answer, party.sketch)
            return
        assert asked.truth is not None, f"an answer where there is none: {answer}"
        hits = judge(answer, asked, party.sketch.guarantee)
        if is_trial and not asked.is_exact:
            doubt = 1 - answer.confidence
            self.trials += [((kind, what, self.family.group), hit, doubt) for what, hit in hits]

    def refuse_to_ask(self):
        party = self.any_party()
        arguments = self.family.bad_question(party.latest)
        before = party.sketch.to_bytes()
        with pytest.raises(REFUSED):
            self.call(party, "query", arguments)
        assert party.sketch.to_bytes() == before


def judge(answer, asked, guarantee):
    """Raise if a certain statement fails; return whether a statement with a confidence holds."""
    context = f"{answer}, truth {asked.truth}, guarantee {guarantee}"
    for number in (answer.value, answer.lower, answer.upper):
        assert type(number) is float, context
        assert not math.isnan(number), context
        assert number or math.copysign(1, number) == 1, f"-0.0: {context}"
    assert answer.lower <= answer.value <= answer.upper, f"out of order: {context}"
    assert 0 <= answer.confidence <= 1, context
    # Comparing fractions with floats is exact.
    low, high = map(Fraction, asked.truth)
    low, high = low - asked.slack * (abs(low) + TINY), high + asked.slack * (abs(high) + TINY)
    covered = answer.lower <= high and low <= answer.upper
    if answer.confidence == 1:
        assert covered, f"a certain interval misses: {context}"
    is_tight = answer.exact or answer.upper - answer.lower <= asked.room * answer.value
    is_known = answer.confidence == 1 and is_tight
    assert is_known or not asked.is_exact, f"not exact: {context}"
    assert low <= answer.upper or not asked.upper_is_certain, f"above the upper bound: {context}"
    assert answer.lower <= high or not asked.lower_is_certain, f"below the lower bound: {context}"
    hits = [] if asked.is_certain else [("interval", covered)]
    if asked.is_certain:
        assert answer.confidence == 1, context
    if asked.error_of is not None and (asked.is_certain or math.isfinite(guarantee)):
        off = max(low - Fraction(answer.value), Fraction(answer.value) - high, 0)
        allowed = Fraction(guarantee) * Fraction(asked.error_of) * (1 + Fraction(1, 10**9))
        if asked.is_certain:
            assert off <= allowed, f"off by more than guaranteed: {context}"
        else:
            hits.append(("guarantee", off <= allowed))
    return hits


def run(family, seeds, steps):
    """Run episodes; return violations with their operations, and intervals that miss too often."""
    trials = defaultdict(list)
    for episode in unharmed(family, [Episode(family, seed) for seed in seeds], steps):
        for key, hit, doubt in episode.trials:
            if doubt <= RARE:
                trials[key].append((hit, doubt))
    for key, found in trials.items():
        assert_few_misses(f"{family.__name__} {key}", found, FALSE_ALARM / len(trials))


def run_trials(family, seeds, confidence):
    """Return how often intervals miss, over all kinds of questions, with one sketch per trial.

    Fewer than a quarter of the trials would not be enough to decide.
    """
    trials = defaultdict(list)
    episodes = [Episode(family, seed, confidence) for seed in seeds]
    for episode in unharmed(family, episodes):
        for (_, what, _), hit, doubt in episode.trials:
            if doubt:  # what is certain was checked at once
                trials[what].append((hit, doubt))
    enough = {what: found for what, found in trials.items() if len(found) >= len(seeds) / 4}
    assert "interval" in enough, f"{family.__name__}: too few of the answers may miss"
    for what, found in enough.items():
        assert_few_misses(f"{family.__name__} {what}", found, FALSE_ALARM / len(enough))


def unharmed(family, episodes, steps=None):
    """Run episodes; raise what failed in any of them, with the fewest operations."""
    failures = []
    for episode in episodes:
        try:
            episode.one_trial() if steps is None else episode.run(steps)
        except (Exception, pytest.fail.Exception) as error:
            told = f"{type(error).__name__}: {error}"
            failures.append((f"seed {episode.seed}: {told}"[:400], episode.operations))
    if failures:
        shortest = min((operations for _, operations in failures), key=len)
        lines = [told for told, _ in failures] + ["", "the shortest of them:"]
        lines += [line[:2000] for line in shortest]
        raise AssertionError(f"{family.__name__}: {len(failures)} failures\n" + "\n".join(lines))
    return episodes


def assert_few_misses(name, found, false_alarm):
    doubt, misses = max(doubt for _, doubt in found), sum(not hit for hit, _ in found)
    allowed = most_failures(len(found), doubt, false_alarm) if doubt else 0
    assert allowed < len(found), f"{name}: {len(found)} trials cannot fail, with doubt {doubt:.3g}"
    assert misses <= allowed, f"{name}: {misses} of {len(found)} missed, with doubt {doubt:.3g}"
