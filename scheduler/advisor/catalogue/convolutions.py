"""Counts parameters, operations and kept numbers of a network, layer by layer."""

from scheduler.advisor.networks import ConvolutionalNetwork


class Layers:
    """Of one sample. A convolution keeps its result, and a norm or an activation after it keeps
    one more copy: `kept_copies` in all."""

    def __init__(self, kept_copies: int) -> None:
        self._copies = kept_copies
        self._parameters = 0
        self._kept = 0
        self._flops = 0

    def convolution(
        self, before: int, after: int, size: int, side: int, norm: bool = False
    ) -> None:
        """size x size, from `before` channels to `after`, which are side x side. Without a norm it
        has a bias; a norm has two weights of each channel instead."""
        weights = before * after * size**2
        self._parameters += weights + (2 * after if norm else after)
        self._flops += 2 * weights * side**2
        self._kept += self._copies * after * side**2

    def norm(self, channels: int) -> None:
        self._parameters += 2 * channels

    def matrix(
        self, before: int, after: int, tokens: int, has_bias: bool = True, copies: int = 1
    ) -> None:
        self._parameters += before * after + (after if has_bias else 0)
        self._flops += 2 * before * after * tokens
        self._kept += copies * after * tokens

    def attention(self, tokens: int, others: int, width: int) -> None:
        """Scores and their product with the values, fused: the scores are not kept."""
        self._flops += 4 * tokens * others * width
        self._kept += tokens * width

    def network(self) -> ConvolutionalNetwork:
        return ConvolutionalNetwork(self._parameters, self._kept, self._flops)
