data = open('/data/train.bin', 'rb').read()
