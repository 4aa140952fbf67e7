"""Where a gang goes: nodes, GPUs, slices and shares, and what is free as a pass goes on."""
