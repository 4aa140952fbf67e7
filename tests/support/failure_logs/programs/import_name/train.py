from numpy import bool8x
