"""Settings of all tests."""

from hypothesis import settings

# The same examples in every run, however slow the machine is: a test passes or fails for a reason
# that is in the code.
settings.register_profile("recency", derandomize=True, deadline=None, database=None)
settings.load_profile("recency")

# A package of strangers, which test_foreign.py imports under another name: a class has one place.
collect_ignore = ["foreign"]
