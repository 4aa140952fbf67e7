"""Sensor samples of GPUs: the latest ones, and one a minute for the devices of each job."""
