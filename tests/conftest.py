"""Settings of all tests."""

import zlib

from hypothesis import settings

# The same examples in every run, however slow the machine is: a test passes or fails for a reason
# that is in the code.
settings.register_profile("recency", derandomize=True, deadline=None, database=None)
settings.load_profile("recency")

# A package of strangers, which test_foreign.py imports under another name: a class has one place.
collect_ignore = ["foreign"]


def pytest_addoption(parser):
    parser.addoption(
        "--a-tenth-of-laws",
        action="store_true",
        help="of the checks of laws, run one in ten: the same ones every time (make check)",
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("--a-tenth-of-laws"):
        left_out = [
            item
            for item in items
            if "test_law[" in item.nodeid and zlib.crc32(item.nodeid.encode()) % 10
        ]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
