"""Networks that are no transformers: their sizes, as the formulas of memory and time need them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConvolutionalNetwork:
    """A network of convolutions. Its input has one size, so there is no sequence."""

    parameters: float
    kept_numbers: float  # of one sample, for the backward pass
    forward_flops: float  # of one sample; a multiply-add is two

    def activation_bytes(self, batch: float, number_bytes: float = 2.0) -> float:
        return batch * self.kept_numbers * number_bytes

    def model_flops(self, batch: float) -> float:
        """Of one training step: the backward pass is twice the forward pass."""
        return 3 * batch * self.forward_flops
