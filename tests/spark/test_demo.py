import demo


def test_the_demo_prints_answers_whose_intervals_hold(spark, tmp_path, capsys):
    """Data, seeds and partitions are fixed, so the answers are, too, and all intervals hold."""
    answers = demo.show(spark, demo.load_flights(), tmp_path)
    assert len(answers) == 4 * 6 + 1 + 8 + 6 + 3 + 10 + 4 + 4 * 4
    for answer in answers:
        assert answer.estimate.lower <= answer.exact <= answer.estimate.upper, answer
    printed = capsys.readouterr().out
    assert "different aircraft, 7 days" in printed
    assert "aircraft from JFK, 90 days" in printed
    assert "flights to LAX, 24 hours" in printed  # a heavy hitter, by its name
    for name in ("flights.png", "decays.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
