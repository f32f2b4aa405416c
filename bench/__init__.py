"""Measurements of this project: each prints a table, and docs/performance.md is written from the last run of each."""
