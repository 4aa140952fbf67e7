def step(:
    pass
