"""A simulated NVIDIA driver that stands behind pynvml. Never used unless explicitly installed."""
