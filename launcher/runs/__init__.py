"""What is known of each run: its record beside what it makes, its job and its log; and how a run is found again."""
