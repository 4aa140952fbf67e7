"""TensorBoard event files."""

import base64
import struct

from portal.files.event_records import masked_crc32c

# Written by TensorBoard 2.21's own EventFileWriter, which PyTorch's SummaryWriter uses: 5 steps of
# `loss/train` (simple_value), `accuracy` (a tensor of floats) and `lr` (a tensor's content), a
# histogram, and one NaN of `bad`.
WRITTEN_BY_TENSORBOARD = base64.b64decode(
    """
SAAAAAAAAAD+kkidCQInC2T7wdpBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2ZW50
X2ZpbGVfd3JpdGVyiWLt1R4AAAAAAAAA2dwSMgkAAABA/FTZQSoTChEKCmxvc3MvdHJhaW4VAACAP14rDtkyAAAAAAAAACQZ
VuwJAAAAQPxU2UEqJwolCghhY2N1cmFjeUIKCAESACoEAAAAAEoNCgkKB3NjYWxhcnMgAbH29osYAAAAAAAAAKN/SyIqFgoU
CgJsckIOCAISACIIAAAAAAAAAADMdxELIAAAAAAAAAAp7alQCQAAQED8VNlBEAEqEwoRCgpsb3NzL3RyYWluFQAAAD8dzaAn
JQAAAAAAAADqvDbzCQAAQED8VNlBEAEqGAoWCghhY2N1cmFjeUIKCAESACoEzczMPSTb5g4aAAAAAAAAABKb2C0QASoWChQK
AmxyQg4IAhIAIggAAAAAAADwP8p5OhsgAAAAAAAAACntqVAJAACAQPxU2UEQAioTChEKCmxvc3MvdHJhaW4Vq6qqPpdDQnMl
AAAAAAAAAOq8NvMJAACAQPxU2UEQAioYChYKCGFjY3VyYWN5QgoIARIAKgTNzEw+Fvv7NhoAAAAAAAAAEpvYLRACKhYKFAoC
bHJCDggCEgAiCAAAAAAAABBAua7YUCAAAAAAAAAAKe2pUAkAAMBA/FTZQRADKhMKEQoKbG9zcy90cmFpbhUAAIA+Lw6P6SUA
AAAAAAAA6rw28wkAAMBA/FTZQRADKhgKFgoIYWNjdXJhY3lCCggBEgAqBJqZmT7aT0rdGgAAAAAAAAASm9gtEAMqFgoUCgJs
ckIOCAISACIIAAAAAAAAIkB2PDggIAAAAAAAAAAp7alQCQAAAEH8VNlBEAQqEwoRCgpsb3NzL3RyYWluFc3MTD4FieZ9JQAA
AAAAAADqvDbzCQAAAEH8VNlBEAQqGAoWCghhY2N1cmFjeUIKCAESACoEzczMPqB56/oaAAAAAAAAABKb2C0QBCoWChQKAmxy
Qg4IAhIAIggAAAAAAAAwQFvgT71ZAAAAAAAAAIodZbYQBCpVClMKB3dlaWdodHMqSBEAAAAAAADwPxkAAAAAAAAAQCEAAAAA
AADwPykAAAAAAADwPzIQAAAAAAAA4D8AAAAAAADwPzoQAAAAAAAA8D8AAAAAAADwP+6mtAIQAAAAAAAAAJX7/hgQBCoMCgoK
A2JhZBUAAMB/R6sZnA==
"""
)


def event_record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    checksums = (struct.pack("<I", masked_crc32c(part)) for part in (length, data))
    return length + next(checksums) + data + next(checksums)


def scalar_record(tag: str, step: int, value: float) -> bytes:
    name = tag.encode()
    summary_value = b"\x0a" + _varint(len(name)) + name + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + _varint(len(summary_value)) + summary_value
    return event_record(b"\x10" + _varint(step) + b"\x2a" + _varint(len(summary)) + summary)


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])
