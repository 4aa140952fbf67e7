"""Jobs that hold GPUs and do not use them: warned, and stopped where their project wants it."""
