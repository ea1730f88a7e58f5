"""What a run tells of its best weights: errors beside what costs nothing, by asset, and pictures."""
