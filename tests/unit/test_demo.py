from recency import demo


def test_the_demo_prints_answers_whose_intervals_hold(capsys):
    """The data and the seeds are fixed: so are the answers, and all their intervals hold."""
    flights = demo.load_flights()
    answers = [
        *demo.departures(flights),
        *demo.airports(flights),
        *demo.aircraft_miles_and_delays(flights),
    ]
    assert len(answers) == 24 + 8 + 13
    for answer in answers:
        assert answer.estimate.lower <= answer.exact <= answer.estimate.upper, answer
    demo.main()
    printed = capsys.readouterr().out
    assert printed.count("\n") > 45
    assert "different aircraft, 7 days" in printed
