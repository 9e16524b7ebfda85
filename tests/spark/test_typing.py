"""A user's script that ``mypy --strict`` accepts runs, and has the types that it declares."""

import user_script


def test_the_script_runs_alone():
    assert user_script.alone() > 0


def test_the_script_runs_on_spark(spark):
    assert user_script.on_spark(spark) == 3  # three pages; both sketches of visitors say the same
