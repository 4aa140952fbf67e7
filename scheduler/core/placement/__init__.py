"""Where a gang goes: nodes, GPUs, slices and shares, on the ledger of a pass."""
