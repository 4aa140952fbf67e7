print('loading', flush=True)
rows = []
while True:
    rows.append(bytearray(8 << 20))
    rows[-1][::4096] = b'x' * len(rows[-1][::4096])
