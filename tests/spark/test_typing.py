"""What ``mypy --strict`` accepts in a user's script does what its types say."""

import user_script


def test_the_script_runs_alone():
    assert user_script.alone() > 0


def test_the_script_runs_on_spark(spark):
    assert user_script.on_spark(spark) == 3  # three pages; both sketches of visitors say the same
