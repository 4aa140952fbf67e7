"""Brings a node's MIG modes and MIG instances to those of the desired document. See README.md."""
