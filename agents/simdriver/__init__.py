"""A simulated NVIDIA driver behind pynvml. Never active unless explicitly installed."""
