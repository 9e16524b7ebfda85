"""Errors a caller may want to tell apart; all of them are ``ValueError``."""


class IncompatibleSketchError(ValueError):
    """Two sketches cannot be combined: they differ in kind, configuration or seed."""


class CorruptSketchError(ValueError):
    """Bytes that are not, or no longer, a sketch this release can read."""


class OutOfOrderError(ValueError):
    """An event is older than the latest one, in a sketch that needs time order."""


class NoAnswerError(ValueError):
    """A question that what was seen has no answer to, such as the median of nothing."""


class SharedCoinsWarning(UserWarning):
    """Sketches that sample events were built with one stream number, and are being merged."""
