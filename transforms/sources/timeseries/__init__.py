"""Sensor series: rows in order of time, one asset (a machine, a sensor) after another."""
