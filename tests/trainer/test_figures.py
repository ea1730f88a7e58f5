"""Pictures of names that people have."""

import pytest

from beamfeed.trainer import figures


@pytest.mark.parametrize("name", ["$50k_to_$100k", "$5 (10%) - $20", "cost_$ and tax_$", "x_{$ $"])
def test_a_name_with_dollars_is_no_formula(name):
    figure = figures.figure(4, 3)
    left, right = figure.subplots(1, 2)
    left.set(title=name, xlabel=name)
    left.set_yticks([0, 1], [name, name])
    left.plot([0, 1], label=name)
    left.legend()
    right.plot([1, 1000])
    right.set_yscale("log")
    assert figures.png(figure).startswith(b"\x89PNG")
    assert not left.title.get_parse_math()
    assert right.yaxis.get_ticklabels()[0].get_parse_math()  # powers of ten
