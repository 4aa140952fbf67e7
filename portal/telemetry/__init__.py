"""Sensor samples of GPUs: the latest ones, and one a minute for each job."""
