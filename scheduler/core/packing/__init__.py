"""Which node and which GPU: a table of scores that one placement changes in one column.

`kinds` are the words, `engine` is the way in. What makes a placement good is in `holes` (what an
idle part of a GPU is worth), `fill` (what CPU and memory still allow), `fragmentation` and
`scarcity`; `learning` makes these from the mix of demand. Pure: no clock, no I/O.
"""
