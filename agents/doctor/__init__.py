"""Preflight: what stands between this node and safe work on it. See `docs/doctor.md`.

    machine ──reads──▶ checks (driver, toolkit, runc, engine, fabric, host) ──▶ findings

`machine.py` alone touches the system, and only reads it. Every check is a pure function of a
machine, so that a folder and the recorded words of real programs can stand in for one.
"""
