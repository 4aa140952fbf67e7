"""How many GPUs and slices are free, by model, node and layout."""
