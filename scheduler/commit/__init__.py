"""Applies a plan to rows, one short transaction for each decision."""
