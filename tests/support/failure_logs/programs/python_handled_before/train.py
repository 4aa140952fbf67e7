import sys, traceback
for step in range(600):
    if step == 3:
        try:
            1 / 0
        except ZeroDivisionError:
            traceback.print_exc()
    print('step', step, file=sys.stderr)
loss = float('nan')
assert loss == loss, f'loss is {loss} at step {step}'
