"""What a table is divided into."""

import pickle

import pytest

from beamfeed.transforms.sources.descriptors import Asset
from beamfeed.transforms.sources.readers import Group
from beamfeed.transforms.sources.table.plan import TableFile, cut_units

ROWS = 100_000


def units_of(groups, parts=()):
    places = tuple(Group(at * ROWS, ROWS, at << 23, 8 << 20) for at in range(groups))
    file = TableFile("a", "a.csv", groups * ROWS, groups=places, scratch="s", parts=parts)
    return list(cut_units(Asset("a", (file,), None), columns=10)), places


@pytest.mark.parametrize("parts", [(), ((0, ROWS), (ROWS, 2 * ROWS), (2 * ROWS, 2 * ROWS + 7))])
def test_a_unit_knows_its_own_groups_alone(parts):
    units, groups = units_of(len(parts) or 100, parts)
    assert [group for unit in units for group in unit.asset.piece.groups] == list(groups)
    for unit in units:
        assert all(unit.start <= group.row < unit.end for group in unit.asset.piece.groups)
    assert [unit.index for unit in units] == list(range(len(units)))
    assert units[-1].is_last or parts


def test_a_unit_of_a_large_file_is_no_larger():
    small, large = (max(len(pickle.dumps(unit)) for unit in units_of(groups)[0]) for groups in (20, 2000))
    assert large <= 1.1 * small
