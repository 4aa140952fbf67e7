"""`manage.py demo`: the whole product as processes on one machine, with simulated GPUs."""
