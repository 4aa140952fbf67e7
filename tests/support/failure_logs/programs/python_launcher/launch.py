import subprocess, sys
subprocess.run([sys.executable, 'train.py'], check=True)
