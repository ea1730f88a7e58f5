"""What is in the records of a shard, counted while they are made."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.transforms.records.targets import TargetTally, tally_targets
from beamfeed.transforms.sources.record_block import RecordBlock


@dataclass
class Tally:
    """What went into a file, counted on the way."""

    records: int = 0
    windows: int = 0
    rows: int = 0
    bytes: int = 0
    windows_by_asset: Counter[str] = field(default_factory=Counter)
    targets: dict[str, TargetTally] = field(default_factory=dict)

    def add(self, block: RecordBlock, fields: Sequence[Field], windows: Windows) -> None:
        """Counts what a block is encoded to, but for its bytes."""
        found = int(count_windows(block.rows, windows.length, windows.stride).sum())
        self.records += len(block)
        self.windows += found
        self.rows += int(block.rows.sum())
        self.windows_by_asset[block.asset] += found
        for name, tally in tally_targets(block, fields, windows).items():
            self.targets[name] = self.targets[name] + tally if name in self.targets else tally
