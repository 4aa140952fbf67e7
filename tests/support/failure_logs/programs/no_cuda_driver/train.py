from numba import cuda
cuda.device_array(10)
