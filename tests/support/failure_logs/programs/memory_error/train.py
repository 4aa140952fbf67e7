rows = [bytes(64 << 20) for _ in range(64)]
