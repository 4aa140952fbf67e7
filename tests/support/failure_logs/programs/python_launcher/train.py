raise RuntimeError('Sizes of tensors must match except in dimension 1.')
