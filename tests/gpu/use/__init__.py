"""`make test-gpu LEVEL=use`: what only a program that uses the GPU can find out.

```
 __main__ ──▶ suite ──▶ one process for each row: row ──▶ rows_*.py ──▶ $OUT/use-NN-name.json
                │            guard: NVML reads, and listens to events       ▲
                │            programs_guard: which programs, with what      record
                └──▶ settings before and after, $OUT/test-gpu-use.json
```

A row keeps the raw words of the driver, of NVIDIA's programs and of the programs in `programs/`,
and judges none of them. It has a CUDA context and memory of its own and changes no GPU: no MIG
mode, clock, compute mode, persistence or ECC, and no reset.
"""
