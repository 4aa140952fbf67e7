"""What the driver's events and counters say of a GPU: healthy or not, and in one sentence why.

events ─▶ watch ─▶ verdict, xids, cautions     attention: what that means for work
                                                 struck, strangers, detached (in containers)

`xids`, `verdict`, `cautions`, `struck` and `strangers` are pure.
"""
