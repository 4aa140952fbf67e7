import sys
for n in range(2000):
    sys.stderr.write(f'\r{n / 20:5.1f}%|{"#" * (n // 50)}| {n}/2000 [00:0{n % 10}<00:10]')
raise ValueError('Expected input batch_size (32) to match target batch_size (31).')
