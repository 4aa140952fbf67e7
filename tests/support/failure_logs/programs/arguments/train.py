import argparse
parser = argparse.ArgumentParser('train.py')
parser.add_argument('--epochs', type=int)
parser.parse_args(['--epochs', '3', '--learning-rate', '1e-4'])
