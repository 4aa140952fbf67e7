"""Applies a plan to rows in short transactions."""
