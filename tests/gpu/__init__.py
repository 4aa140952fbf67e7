"""`make test-gpu`: what this project believes of a driver, read from a real one. Changes nothing.

```
 __main__ ──▶ suite: guard (bars every change) ──▶ session ──▶ check_*.py ──▶ report
 environment (a Python that will do)    questions ──▶ reading ──▶ the driver    ▲
                                               twin ── a simulated node of the same boards
```

It needs Python 3.11, pytest and nvidia-ml-py, and nothing else. Its files are named `check_*.py`:
the ordinary suite does not collect them. *Twin*: the simulated board of the same key.
"""
