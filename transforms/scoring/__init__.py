"""From what a model says of windows to alarms: calibrated scores, of each row, a threshold, intervals. Pure."""
